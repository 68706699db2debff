"""Run by Python as it starts, in each process that a test starts: fewer garbage collections.

With Python's own thresholds they are a tenth of the suite's time, most of it while torch is imported.
"""

import gc

gc.set_threshold(10_000, 20, 50)

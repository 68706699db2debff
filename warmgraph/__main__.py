"""`python -m warmgraph ...` is the command line `warmgraph ...`."""

import sys

from warmgraph.scripts import main

sys.exit(main())

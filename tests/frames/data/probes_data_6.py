# ruff: noqa
"""Candidates of the hunt "realistic programs" (data alone). Read only: nothing here was run."""

from __future__ import annotations

import torch
from probe import put

SOURCE = """
import tempfile
import numpy, torch
FLAG = 1.0
# what a loader of settings or of a statistics file gives: a matrix, a masked array, a record array, a mapped file
MATRIX = numpy.matrix([[FLAG]])
MASKED = numpy.ma.masked_array([FLAG])
RECORDS = numpy.array([FLAG]).view(numpy.recarray)
FILE = tempfile.NamedTemporaryFile()
MAPPED = numpy.memmap(FILE.name, dtype="float64", mode="w+", shape=(1,))
MAPPED[0] = FLAG
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.use_bias = numpy.matrix([[FLAG]])
    def forward(self, x): return x * 5 if self.use_bias else x * 1.5
LAYER = Layer()
def matrix_truth(x): return x * 5 if MATRIX else x * 1.5
def masked_truth(x): return x * 5 if MASKED else x * 1.5
def records_truth(x): return x * 5 if RECORDS else x * 1.5
def mapped_truth(x): return x * 5 if MAPPED else x * 1.5
def not_matrix(x): return x * 1.5 if not MATRIX else x * 5
def layer_matrix(x): return LAYER(x)
"""

FLAG = ("FLAG = 1.0", "FLAG = 0.0")


def data(entry, edit, **more):
    put(f"d7: {entry}", SOURCE, entry, edit=edit, **more)


# reached/objects.py:_array says the content only of classes that are *not* numpy's (`module_of_class(...) != "numpy"`);
# numpy's own subclasses of ndarray (matrix, numpy.ma.MaskedArray, recarray, memmap) get dtype and number of dimensions.
# Exact ndarrays are inputs of the graph; these are NumpyVariable under TYPE_MATCH (builder.py, trace_rules.is_numpy), and
# symbolic_convert.py:generic_jump takes bool() of the live object (d5a's array_truth, with a class of numpy's own).
# watch.py:_reading hears attributes alone (that is why d6a's array_masked is refused).
# Fix: `if type(value) is not numpy.ndarray and isinstance(value, numpy.ndarray)` -> the content, whoever's class it is;
# and above _SMALL a digest of tobytes(), not the shape alone.
data("matrix_truth", FLAG)
data("masked_truth", FLAG)
data("records_truth", FLAG)
data("mapped_truth", FLAG)
data("not_matrix", FLAG)
data("layer_matrix", FLAG)  # an attribute of a module

# == Over-refusal and instability: frames that never restore in another process, though nothing relevant changed ==
# (by reading; most likely first)
#
# 1. pydantic models as configs. reached/objects.py:_class walks every name with "__" of a class, classes.py:_lines every
#    attribute: `__pydantic_core_schema__` is a dict with 'ref': "pkg.Cfg:94387233642272", an id()
#    (pydantic/_internal/_type_refs.py: `{id(type_)}`; `_resolve_definition` leaves the ref in). Another text in each process:
#    "self.config.__class__.__pydantic_core_schema__", and TYPE_MATCH on the config before it. Also `__pydantic_decorators__`,
#    `__pydantic_parent_namespace__` (weak references to the locals of whoever defined the class), `__pydantic_validator__`, and
#    `__pydantic_setattr_handlers__`, filled at the first assignment of each field (pydantic/main.py:1113), so one process that
#    assigned differs from one that did not.
#    Fix: in both BOOKKEEPING sets, names with "__pydantic_" on classes whose metaclass comes from the pydantic package, but
#    `__pydantic_fields__` (defaults), `__pydantic_extra__`, `__pydantic_private__`; what a trace can read of a schema is
#    compiled (Rust) and breaks the graph. Test: `class Cfg(BaseModel): p: float = 0.1` with a model that reads cfg.p, twice.
# 2. A plain dict is walked whole, whatever is asked: containers.py:table, `whole = type(value) in (dict, ...)`. The commonest
#    config is yaml.safe_load -> dict: CFG["dropout"] in forward brings CFG["run_name"], ["output_dir"] (with a time), ["host"],
#    ["pid"], ["master_port"], ["resume_from"], ["lr"], ["seed"], ["wandb_id"]. OmegaConf and hydra: each node has `_content`
#    (a dict) and `_parent`, and their own traced code asks for both, so any node brings the root, with hydra.run.dir
#    (${now:...}). Also `self.stats = {...}`, `history`, metrics. After 16 records (frames.py:_traced, MAX_RECORDS) the frame is
#    not recorded any more: with a run id in the dict that is for good, in all later runs.
#    Fix: of a dict of the program's with text keys take keys not in `asked` by name alone (as for a package's table) unless
#    code iterates over it or passes it on: the record knows (DICT_KEYS_MATCH, or a source of the table's items by index, or
#    `items values keys get update copy __eq__ len **` asked in users_code); or whole only where the table has no source at all
#    (those with a source have guards for each key that was read). At least: keep a record's own text of which key differed, so
#    that `explain` names `CFG.run_name` (Walk.first_that_differs names the table, not the key).
# 3. Names are asked for by the whole trace and compared everywhere (walk.py:named). With `name`, `step`, `count`, `data`,
#    `path`, `config`, `loss`, `id`, `version`, `time`, `result` in *any* traced code (torch's and a library's included), every
#    object that is reached has its own under that name compared: a trainer's `step`, a run's `id` and `name`, `start_time`,
#    `save_path`, `self.loss = 0.123`. A method of a trainer (`def train_step(self, batch)`) reaches all of it, and a resumed job
#    starts at another step each time. `free` helps only numbers that the trace looked at.
#    Fix: ask per kind of owner: names of code that has this object (or its class) as a source, or at least leave out names that
#    only torch's and stdlib's code asks for, on objects of user's classes that torch's code never gets; and numbers (int, float)
#    on objects that no source of the record leads to and no traced code of the user's asks for.
# 4. Modules of packages that keep a run: `wandb`, `mlflow`, `comet`, `rich`, `tqdm`, `loguru`, as globals that traced code names
#    (also in the part before a graph break): objects.py:_space walks `wandb.run` -> id, name, step, dir, config. _CUT has
#    logging, threading and torch only. Fix: cut objects that have no source in the record and whose class is an installed
#    package's with nothing but calls asked of it; or a setting with names of packages to cut (with these as a default).
# 5. Tables of Python's and torch's own that fill while a program runs, under common names. walk.py:_lines_on takes whatever is
#    not `comes_by_name`, also plain mutable tables of a library's module: `re._cache` and `struct._cache` (every rope and mask
#    cache is called `self._cache`; `import re` in the module and a use of `re`), `linecache.cache`, `warnings.filters` ("filters"
#    of a convolution), `torch._dynamo.utils.counters`. Recorded *after* a trace and compile filled them, compared *before*.
#    Fix: of a library's own module only names that were not there when it was loaded are data of the program's; tables that
#    begin with "_" or are in a list of known caches count by type.
# 6. `torch.utils._pytree.SUPPORTED_NODES` (tree_map in a frame): `table` walks it in order of registration, and
#    rules.py:_version by all names. Registered by torch when it first compiles (inductor, auto_functionalize, flat_apply, flex
#    attention, transformers' lazily loaded ModelOutputs): there when it is recorded, perhaps not yet when it is restored.
#    Tests warm both alike. Fix: in both only classes that are not torch's (as state.words()["trees"] does).
# 7. Keys that are addresses: {id(p): name for ...}, `defaultdict` by id(module), hooks' tables by RemovableHandle.next_id
#    (torch/utils/hooks.py:26; one counter for all hooks of the process: a logger's hook more or less, or load_state_dict
#    hooks of a resumed run, moves every key). containers.py:table says keys by value. Fix: keys of `_forward_hooks`,
#    `_forward_pre_hooks`, `_backward_hooks` by position (here, and in Values.surface/_keys for these tables); an int key that is
#    id() of something the walk has numbered as that number.
# 8. numpy in a frame. `np.sqrt(d)`, `np.exp`, `np.concatenate`: ufuncs and `_ArrayFunctionDispatcher` get FUNCTION_MATCH
#    (builder.py:is_numpy), and values.py:identity knows no such type: "the identity of an object of numpy.ufunc". Every frame that
#    computes 1/np.sqrt(head_dim) is refused; docs/frames.md does not say so. Fix: by name where
#    getattr(sys.modules["numpy"...], value.__name__) is value; what is installed is compared already.
# 9. `"flash_attn" in sys.modules` in traced code: DICT_CONTAINS is enough, but values.py:surface says length and all keys of
#    sys.modules, which a trace itself makes longer: refused in each process. Fix: as for os.environ, `words | asked` only.
# 10. torch.fx.GraphModule as the model (fx passes, pt2e quantization, an exported program's module()): recording.py:_spaces refuses
#    "whose globals are no module's" (the globals of <eval_with_key> have no __name__). Fix: where the code is a GraphModule's own
#    forward, its globals are what the walk reads; not in docs/frames.md's table of what is refused.
# 11. containers.py:unordered: tuples and sets of objects count by type alone (no instability), but `_place` of classes and
#    functions by name sorts; partials and lambdas of one name fall to the count: a possible wrong restore, none found.
# 12. counted(cls) (classes.py) goes over all subclasses of an abc with what packages registered: `numbers.Number`,
#    `collections.abc.Sequence` after a lazy import (pandas, h5py, sympy, google.protobuf) within or after the first trace.
#    Fix: only registrations of classes that a file of `program()` defines; installed packages are not data.
# 13. os.environ names that are in `asked` by chance: walk.lines_of gives each whole (`HOSTNAME`, `RANK`, `PWD`, `SLURM_JOB_ID`) only
#    because traced code has such a text, though it may be a constant of a log line. Right in most cases; costs a trace for
#    each job where code logs os.environ["SLURM_JOB_ID"] before a graph break.
#
# == Read, and believed to be right (refused, guarded or restored rightly) ==
# activations, norms and losses by name; registries by decorators (timm, HF ACT2FN); AttentionInterface; LoRA merged or not;
# parametrizations (class by torch's name, but its properties have closures and are numbered); tied weights (storages);
# frozen parameters; ModuleDict order; hooks by flag; cached_property, lru_cache (traced through); singledispatch; contextvars;
# torch.backends.* flags incl. mha fastpath (`_is_fastpath_enabled` by `_lines_on`), opt_einsum, mkldnn, precision, denormals;
# default dtype/device; allow_in_graph, nonstrict_trace, custom operators (graph not kept); autograd Functions by config
# (`_BY_TORCH`); torch.Tensor methods replaced by torch's own (class text of torch.Tensor); F.gelu = torch.relu (guard on the
# name); Distribution._validate_args; argparse, dataclass, attrs, namedtuple, SimpleNamespace configs; StrEnum and Flag values;
# itemgetter/attrgetter/methodcaller (an embedded type, traced); loggers' own settings (graph break); sys.argv; threading.Event.

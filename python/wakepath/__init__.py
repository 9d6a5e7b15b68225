"""What saving power costs your I/O, which mechanism costs it, and which setting is best here.

>>> import wakepath
>>> results = wakepath.simulate("iowait-rk3399.fio", "rk3399", ["menu", "teo"], seconds=2)
>>> results.compare(metric="mean_us").best
'teo'

The words are those of the command line `wakepath`, which is in the same package. docs/guides/python.md is the manual.
"""

from ._arguments import ArgumentError
from ._comparison import Comparison
from ._engine import Drive, Error, Machine, PolicySet, Recording, __version__
from ._fleet import fleet
from ._program import WakepathWarning, apst_plan, import_trace, replay, reproduce
from ._results import Results, compare, report
from ._study import Study, simulate
from ._sweep import sweep
from ._table import Table

__all__ = [
    "ArgumentError",
    "Comparison",
    "Drive",
    "Error",
    "Machine",
    "PolicySet",
    "Recording",
    "Results",
    "Study",
    "Table",
    "WakepathWarning",
    "__version__",
    "apst_plan",
    "compare",
    "fleet",
    "import_trace",
    "replay",
    "report",
    "reproduce",
    "simulate",
    "sweep",
]

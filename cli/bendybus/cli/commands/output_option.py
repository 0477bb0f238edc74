"""`-o`, the option for what a command prints, the same in each command that has a result.

`--json` was its spelling in 0.6 and earlier; `option_order` still takes it.
"""

from typing import Annotated

import typer

from bendybus.cli.output import printing
from bendybus.cli.output.printing import Output

OutputOption = Annotated[Output, typer.Option("--output", "-o", help=printing.OUTPUT_HELP)]

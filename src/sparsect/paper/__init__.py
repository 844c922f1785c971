"""The figures and tables of the paper: experiments are specified as data, run to rows, drawn and reported."""

from .contenders import contenders
from .experiments import experiments
from .run import run

__all__ = ["contenders", "experiments", "run"]

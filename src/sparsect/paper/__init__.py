"""The figures and tables of the paper: experiments are specified as data, run to rows, drawn and reported."""

from .catalogue import catalogue
from .contenders import contenders
from .run import run

__all__ = ["catalogue", "contenders", "run"]

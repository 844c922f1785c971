"""Each figure and table of the paper as data: specification -> rows -> figure -> report."""

from .catalogue import catalogue
from .contenders import contenders
from .run import run

__all__ = ["catalogue", "contenders", "run"]

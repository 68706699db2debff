"""Graphs of entries as pictures: DOT, SVG and text. Reads texts only; knows neither torch nor a store."""

from .dot import SHAPES, dot_of
from .folding import MOST_BOXES, Box, fold
from .listing import listing_of
from .model import Edge, Graph, Node, Picture
from .reading import picture_of
from .rendering import CannotRender, svg_of

__all__ = [
    "MOST_BOXES",
    "SHAPES",
    "Box",
    "CannotRender",
    "Edge",
    "Graph",
    "Node",
    "Picture",
    "dot_of",
    "fold",
    "listing_of",
    "picture_of",
    "svg_of",
]

"""The model as a graph: in, out, names, operators, versions."""

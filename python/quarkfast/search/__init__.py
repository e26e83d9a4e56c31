"""The search: a judge, a table of levers and one loop, by which a model is quantized as well as was asked for."""

"""Loop templates of operators along axes: reductions, places of extremes, running results, sweeps over rows."""

"""Work on more molecules than fit into memory: files in, shards out, on one core or a cluster."""

from cwnet.scale._duplicates import find_duplicates
from cwnet.scale._inputs import find_tables
from cwnet.scale._lift import Lifted, lift_files
from cwnet.scale._pool import ClusterError, Pool, open_pool

__all__ = ["ClusterError", "Lifted", "Pool", "find_duplicates", "find_tables", "lift_files", "open_pool"]

//! `SHOW HELP`: a notice, not a table.
//= pgbouncer usage.md#admin-console

/// The notice's message.
pub const MESSAGE: &str = "Console usage";

/// The notice's detail.
pub const DETAIL: &str = "
\tSHOW HELP|CONFIG|DATABASES|POOLS|CLIENTS|SERVERS|USERS|VERSION
\tSHOW LISTS|STATE|WORKERS
\tSHOW CLASSES|FIDELITY|FIDELITY_REASONS|PINS|SIZING
\tSHOW STATS|STATS_TOTALS|STATS_AVERAGES|TOTALS
\tRELOAD
\tSHUTDOWN
\tSHUTDOWN WAIT_FOR_SERVERS|WAIT_FOR_CLIENTS
\tnot supported yet:
\tSHOW PEERS|PEER_POOLS|FDS|SOCKETS|ACTIVE_SOCKETS|MEM|DNS_HOSTS|DNS_ZONES
\tSET key = arg
\tPAUSE [<db>]
\tRESUME [<db>]
\tDISABLE <db>
\tENABLE <db>
\tRECONNECT [<db>]
\tKILL <db>
\tKILL_CLIENT <client_id>
\tSUSPEND
\tWAIT_CLOSE [<db>]";

# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_pgweir_global_optspecs
    string join \n d/daemon q/quiet R/reboot u/user= v/verbose h/help V/version
end

function __fish_pgweir_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_pgweir_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_pgweir_using_subcommand
    set -l cmd (__fish_pgweir_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c pgweir -n "__fish_pgweir_needs_command" -s u -l user -d 'Assume identity of USERNAME' -r
complete -c pgweir -n "__fish_pgweir_needs_command" -s d -l daemon -d 'Run in background (as a daemon)'
complete -c pgweir -n "__fish_pgweir_needs_command" -s q -l quiet -d 'Run quietly: on stderr only what keeps it from starting'
complete -c pgweir -n "__fish_pgweir_needs_command" -s R -l reboot -d 'Do an online reboot: take over from the running process'
complete -c pgweir -n "__fish_pgweir_needs_command" -s v -l verbose -d 'Increase verbosity; may be repeated'
complete -c pgweir -n "__fish_pgweir_needs_command" -s h -l help -d 'Print help'
complete -c pgweir -n "__fish_pgweir_needs_command" -s V -l version -d 'Print version'
complete -c pgweir -n "__fish_pgweir_needs_command" -a "run" -d 'Serve PostgreSQL by its URL or by the environment, without a file'
complete -c pgweir -n "__fish_pgweir_needs_command" -a "dev" -d 'Serve a PostgreSQL of its own, for trying things'
complete -c pgweir -n "__fish_pgweir_needs_command" -a "bench" -d 'Rerun the published tests of pooling, on yours or on a PostgreSQL of its own'
complete -c pgweir -n "__fish_pgweir_needs_command" -a "auth-setup" -d 'Print the SQL that lets auth_query look users up, and run it if asked'
complete -c pgweir -n "__fish_pgweir_needs_command" -a "observe-setup" -d 'Print the SQL that lets observe_user see what all backends do, and run it if asked'
complete -c pgweir -n "__fish_pgweir_needs_command" -a "check" -d 'Say what a file means, and what is wrong with it'
complete -c pgweir -n "__fish_pgweir_needs_command" -a "import" -d 'Say how pgweir would serve PgBouncer\'s file: what is as before, what is not'
complete -c pgweir -n "__fish_pgweir_needs_command" -a "health" -d 'Ask a running pgweir whether it takes clients, for health checks'
complete -c pgweir -n "__fish_pgweir_needs_command" -a "doctor" -d 'Say what is wrong with a pooler and its PostgreSQL, and what mends it'
complete -c pgweir -n "__fish_pgweir_needs_command" -a "profile" -d 'Draw a flame graph of a running pgweir, or of PostgreSQL\'s backends'
complete -c pgweir -n "__fish_pgweir_needs_command" -a "top" -d 'Show what goes on in a running pgweir: who waits, for what, behind whom'
complete -c pgweir -n "__fish_pgweir_needs_command" -a "report" -d 'Show who waited for what, as one HTML page, from a console or a file'
complete -c pgweir -n "__fish_pgweir_needs_command" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c pgweir -n "__fish_pgweir_using_subcommand run" -l listen -d 'Where to listen: a port, an address, or both, as in 27450, 10.0.0.5, *:6432 or [::1]:6432; 127.0.0.1:6432 unless said otherwise' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand run" -l pool-size -d 'How many connections PostgreSQL gets for one database. auto: as many as give the most throughput, found by trying, from 2 to 80, and at most 90 for all databases; SHOW SIZING tells which and why. auto unless said otherwise' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand run" -s u -l user -d 'Assume identity of USERNAME' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand run" -s q -l quiet -d 'Run quietly: on stderr only what keeps it from starting'
complete -c pgweir -n "__fish_pgweir_using_subcommand run" -s v -l verbose -d 'Increase verbosity; may be repeated'
complete -c pgweir -n "__fish_pgweir_using_subcommand run" -s h -l help -d 'Print help'
complete -c pgweir -n "__fish_pgweir_using_subcommand dev" -l listen -d 'Where pgweir listens: a port, an address, or both, as in 7000, 10.0.0.5, *:6432 or [::1]:6432; 127.0.0.1:6432 unless said otherwise' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand dev" -l port -d 'A port alone, as --listen takes it, too' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand dev" -l data -d 'Where PostgreSQL\'s data stay; without it they go with the run' -r -F
complete -c pgweir -n "__fish_pgweir_using_subcommand dev" -l pool-size -d 'How many connections PostgreSQL gets for one database. auto: as many as give the most throughput, found by trying, from 2 to 80, and at most 90 for all databases; SHOW SIZING tells which and why. auto unless said otherwise' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand dev" -s q -l quiet -d 'Run quietly: nothing of pgweir\'s on stderr'
complete -c pgweir -n "__fish_pgweir_using_subcommand dev" -s v -l verbose -d 'Increase verbosity; may be repeated'
complete -c pgweir -n "__fish_pgweir_using_subcommand dev" -s h -l help -d 'Print help'
complete -c pgweir -n "__fish_pgweir_using_subcommand bench" -l only -d 'These tests only: cern, percona, linux-6 (may be repeated)' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand bench" -l rounds -d 'Rounds in which the contestants take turns; 3 unless said otherwise' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand bench" -l scale -d 'Size of the tables, 100,000 rows each; 100 unless said otherwise' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand bench" -l out -d 'Where the report goes; a new directory here unless said otherwise' -r -F
complete -c pgweir -n "__fish_pgweir_using_subcommand bench" -l quick -d 'One round of a second or two: a look, not a record'
complete -c pgweir -n "__fish_pgweir_using_subcommand bench" -l no-fsync -d 'The PostgreSQL of its own need not survive a crash'
complete -c pgweir -n "__fish_pgweir_using_subcommand bench" -s h -l help -d 'Print help'
complete -c pgweir -n "__fish_pgweir_using_subcommand auth-setup" -l role -d 'The role that looks them up: auth_user' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand auth-setup" -l apply -d 'Run it there, too'
complete -c pgweir -n "__fish_pgweir_using_subcommand auth-setup" -s h -l help -d 'Print help'
complete -c pgweir -n "__fish_pgweir_using_subcommand observe-setup" -l role -d 'The role that asks: observe_user' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand observe-setup" -l apply -d 'Run it there, too'
complete -c pgweir -n "__fish_pgweir_using_subcommand observe-setup" -s h -l help -d 'Print help'
complete -c pgweir -n "__fish_pgweir_using_subcommand check" -s h -l help -d 'Print help'
complete -c pgweir -n "__fish_pgweir_using_subcommand import" -s h -l help -d 'Print help'
complete -c pgweir -n "__fish_pgweir_using_subcommand health" -l live -d 'It is enough that it lives, though it may take no clients'
complete -c pgweir -n "__fish_pgweir_using_subcommand health" -s h -l help -d 'Print help'
complete -c pgweir -n "__fish_pgweir_using_subcommand doctor" -l postgres -d 'The PostgreSQL to look at, and one of its databases; the first that the file leads to unless given' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand doctor" -l replicas -d 'Processes of the pooler with these settings, as pods; 1 unless said otherwise' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand doctor" -l cores -d 'Cores of PostgreSQL\'s machine, if it is another one' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand doctor" -l client-timeout -d 'After how many seconds the application\'s clients give up' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand doctor" -l long -d 'Transactions longer than so many seconds are long; 300 unless said otherwise' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand doctor" -l json -d 'Print JSON'
complete -c pgweir -n "__fish_pgweir_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c pgweir -n "__fish_pgweir_using_subcommand profile" -l pid -d 'The pgweir with this process id' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand profile" -l pid-file -d 'The pgweir whose process id this file has' -r -F
complete -c pgweir -n "__fish_pgweir_using_subcommand profile" -l postgres -d 'All backends of the PostgreSQL at this URL, on this machine' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand profile" -l waiting -d 'With --postgres: those backends that wait for this event at the moment of the sample, as pg_stat_activity has it, such as LWLock:BufferMapping or Lock:tuple; a class alone, such as IO, is any event of it' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand profile" -l backend -d 'The backend of PostgreSQL with this process id' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand profile" -l by -d 'perf or gdb; perf where it can be used unless said otherwise, gdb for --waiting' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand profile" -l seconds -d 'How long; 10 seconds unless said otherwise' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand profile" -l rate -d 'Samples a second: 49 of each process by perf, 2 of all together by gdb, unless said otherwise' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand profile" -l pause-max -d 'How long gdb may stop a process for one sample, in seconds; 2 unless said otherwise. A sample that takes longer ends the profile' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand profile" -l svg -d 'Where the flame graph goes; profile.svg unless said otherwise, - is stdout' -r -F
complete -c pgweir -n "__fish_pgweir_using_subcommand profile" -l folded -d 'Write the stacks as text, too, a line each; - is stdout. Without --svg there is no picture then' -r -F
complete -c pgweir -n "__fish_pgweir_using_subcommand profile" -l yes -d 'Let gdb stop processes'
complete -c pgweir -n "__fish_pgweir_using_subcommand profile" -s h -l help -d 'Print help'
complete -c pgweir -n "__fish_pgweir_using_subcommand top" -l view -d 'What is shown first: overview, pools, classes, waits, statements, holders, locks, clients' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand top" -l table -d 'Which table of the view, by the name that its first line has; of waits: event, statement, pool, blocker, class, "tag NAME"' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand top" -l span -d 'Of waits: 15min, LAST 90s, or FROM \'14:03\' TO \'14:04\'; 5 minutes unless said otherwise' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand top" -l sort -d 'The column with the greatest first' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand top" -l filter -d 'Only rows that have this text' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand top" -l interval -d 'Seconds between two looks; 1 unless said otherwise' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand top" -l once -d 'Print the view as text, and end'
complete -c pgweir -n "__fish_pgweir_using_subcommand top" -s h -l help -d 'Print help'
complete -c pgweir -n "__fish_pgweir_using_subcommand report" -l file -d 'The file of observe_file to read instead' -r -F
complete -c pgweir -n "__fish_pgweir_using_subcommand report" -l from -d 'From when on; five minutes before the end unless said otherwise' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand report" -l to -d 'Until when; now unless said otherwise' -r
complete -c pgweir -n "__fish_pgweir_using_subcommand report" -l format -d 'How it is written' -r -f -a "html\t''
csv\t''
json\t''"
complete -c pgweir -n "__fish_pgweir_using_subcommand report" -s o -l out -d 'Where to; standard output unless given' -r -F
complete -c pgweir -n "__fish_pgweir_using_subcommand report" -s h -l help -d 'Print help'
complete -c pgweir -n "__fish_pgweir_using_subcommand help; and not __fish_seen_subcommand_from run dev bench auth-setup observe-setup check import health doctor profile top report help" -f -a "run" -d 'Serve PostgreSQL by its URL or by the environment, without a file'
complete -c pgweir -n "__fish_pgweir_using_subcommand help; and not __fish_seen_subcommand_from run dev bench auth-setup observe-setup check import health doctor profile top report help" -f -a "dev" -d 'Serve a PostgreSQL of its own, for trying things'
complete -c pgweir -n "__fish_pgweir_using_subcommand help; and not __fish_seen_subcommand_from run dev bench auth-setup observe-setup check import health doctor profile top report help" -f -a "bench" -d 'Rerun the published tests of pooling, on yours or on a PostgreSQL of its own'
complete -c pgweir -n "__fish_pgweir_using_subcommand help; and not __fish_seen_subcommand_from run dev bench auth-setup observe-setup check import health doctor profile top report help" -f -a "auth-setup" -d 'Print the SQL that lets auth_query look users up, and run it if asked'
complete -c pgweir -n "__fish_pgweir_using_subcommand help; and not __fish_seen_subcommand_from run dev bench auth-setup observe-setup check import health doctor profile top report help" -f -a "observe-setup" -d 'Print the SQL that lets observe_user see what all backends do, and run it if asked'
complete -c pgweir -n "__fish_pgweir_using_subcommand help; and not __fish_seen_subcommand_from run dev bench auth-setup observe-setup check import health doctor profile top report help" -f -a "check" -d 'Say what a file means, and what is wrong with it'
complete -c pgweir -n "__fish_pgweir_using_subcommand help; and not __fish_seen_subcommand_from run dev bench auth-setup observe-setup check import health doctor profile top report help" -f -a "import" -d 'Say how pgweir would serve PgBouncer\'s file: what is as before, what is not'
complete -c pgweir -n "__fish_pgweir_using_subcommand help; and not __fish_seen_subcommand_from run dev bench auth-setup observe-setup check import health doctor profile top report help" -f -a "health" -d 'Ask a running pgweir whether it takes clients, for health checks'
complete -c pgweir -n "__fish_pgweir_using_subcommand help; and not __fish_seen_subcommand_from run dev bench auth-setup observe-setup check import health doctor profile top report help" -f -a "doctor" -d 'Say what is wrong with a pooler and its PostgreSQL, and what mends it'
complete -c pgweir -n "__fish_pgweir_using_subcommand help; and not __fish_seen_subcommand_from run dev bench auth-setup observe-setup check import health doctor profile top report help" -f -a "profile" -d 'Draw a flame graph of a running pgweir, or of PostgreSQL\'s backends'
complete -c pgweir -n "__fish_pgweir_using_subcommand help; and not __fish_seen_subcommand_from run dev bench auth-setup observe-setup check import health doctor profile top report help" -f -a "top" -d 'Show what goes on in a running pgweir: who waits, for what, behind whom'
complete -c pgweir -n "__fish_pgweir_using_subcommand help; and not __fish_seen_subcommand_from run dev bench auth-setup observe-setup check import health doctor profile top report help" -f -a "report" -d 'Show who waited for what, as one HTML page, from a console or a file'
complete -c pgweir -n "__fish_pgweir_using_subcommand help; and not __fish_seen_subcommand_from run dev bench auth-setup observe-setup check import health doctor profile top report help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'

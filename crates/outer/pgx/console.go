// Reads the console in the ways of the driver; what it is called with and prints is that of ../python/console.py.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

func ask(ctx context.Context, connection *pgx.Conn, way, command string) {
	rows, err := connection.Query(ctx, command)
	sound(err, way+": "+command)
	for rows.Next() {
		values, err := rows.Values()
		sound(err, way+": "+command)
		fields := []string{way, command}
		for _, value := range values {
			switch value := value.(type) {
			case nil:
				fields = append(fields, `\N`)
			case pgtype.Numeric:
				same(value.Exp >= 0, true, "the console's numerics are whole")
				fields = append(fields, value.Int.String()+strings.Repeat("0", int(value.Exp)))
			default:
				fields = append(fields, fmt.Sprint(value))
			}
		}
		fmt.Println(strings.Join(fields, "\t"))
	}
	sound(rows.Err(), way+": "+command)
}

func console(address string, commands []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
	for _, mode := range modes {
		config, err := pgx.ParseConfig(address)
		sound(err, "the URL")
		config.DefaultQueryExecMode = mode
		connection, err := pgx.ConnectConfig(ctx, config)
		sound(err, "connecting")
		sound(connection.Ping(ctx), "Ping")
		for _, command := range commands {
			ask(ctx, connection, "pgx "+mode.String(), command)
		}
		transaction, err := connection.Begin(ctx)
		sound(err, "Begin")
		sound(transaction.Commit(ctx), "Commit")
		_, err = connection.Exec(ctx, "show nonsense")
		var told *pgconn.PgError
		same(errors.As(err, &told) && told.Code == "08P01", true, "a command that is none")
		sound(connection.Ping(ctx), "Ping after an error")
		sound(connection.Close(ctx), "Close")
	}
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// logins logs in once for each line of standard input; lines and answers are those of ../python/logins.py.
func logins() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Println(strings.ReplaceAll(logIn(strings.Split(lines.Text(), "\t")), "\n", " "))
	}
}

func logIn(given []string) string {
	names := []string{"host", "port", "user", "dbname", "password", "sslmode", "sslrootcert", "sslcert", "sslkey"}
	var text strings.Builder
	for at, name := range names {
		if given[at] != "" {
			value := strings.ReplaceAll(strings.ReplaceAll(given[at], `\`, `\\`), `'`, `\'`)
			fmt.Fprintf(&text, "%s='%s' ", name, value)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	connection, err := pgx.Connect(ctx, text.String())
	if err == nil {
		_, err = connection.Exec(ctx, "select 1")
		connection.Close(ctx)
	}
	if err == nil {
		return "ok"
	}
	var told *pgconn.PgError
	if errors.As(err, &told) {
		return told.Code + "\t" + told.Message
	}
	return "-\t" + err.Error()
}

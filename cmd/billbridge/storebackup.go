package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/store"
)

type storeBackup struct {
	File   string `arg:"" placeholder:"FILE" help:"The new file. It is never replaced."`
	Config string `required:"" placeholder:"FILE" help:"The gateway's config, which names the store. The gateway may be running."`
}

// Help implements kong's detailed help.
func (storeBackup) Help() string {
	return examples("billbridge store backup /var/backups/billbridge-2026-11-22.db --config billbridge.yaml") +
		"\n\nIt copies an SQLite store on the machine that it is on, as of one moment, while gateways read and write. A plain copy of the file would lose what is" +
		"\nstill in its log. Nobody but you can read the copy: it holds bills and callbacks. For PostgreSQL it prints the pg_dump command to run instead." +
		"\n\nTo restore: stop the gateway, put the copy in the place of the store, remove the files STORE-wal and STORE-shm beside it, start one gateway and" +
		"\nrun billbridge rollout restored."
}

// Run copies the store.
func (c *storeBackup) Run(ctx context.Context, s surroundings) error {
	checked, err := config.Load(c.Config, s.env)
	if err != nil {
		return err
	}
	url := checked.Store.URL.Reveal()
	switch scheme, _, _ := strings.Cut(url, ":"); scheme {
	case "":
		return fmt.Errorf("%s names no store: there is nothing to back up", c.Config)
	case "postgres", "postgresql":
		return fmt.Errorf("the store is in PostgreSQL: back it up with its own tool, with STORE_URL set to store.url of %s:\n"+
			`  pg_dump --format=custom --file=%s --dbname="$STORE_URL"`, c.Config, shellQuoted(c.File))
	}
	var progress func(written, of int64)
	if s.terminal {
		progress = func(written, of int64) { fmt.Fprintf(s.err, "\r%s of about %s", mebibytes(written), mebibytes(of)) }
	}
	copied, err := store.Backup(ctx, url, c.File, progress)
	if s.terminal {
		fmt.Fprint(s.err, "\r\x1b[K")
	}
	if err != nil {
		return fmt.Errorf("no backup was written: %w", err)
	}
	fmt.Fprintf(s.out, "Wrote %s, %s, as of %s. Bills: %d, callback addresses: %d, callbacks: %d.\n", c.File, mebibytes(copied.Size),
		copied.At.Local().Format(time.RFC3339Nano), copied.Bills, copied.Addresses, copied.Callbacks)
	if checked.Rollout != nil {
		fmt.Fprintln(s.out, "Bills made later are not in it. After you have restored a store from it, run billbridge rollout restored before partners call.")
	}
	return nil
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// shellQuoted is a word as a shell reads it.
func shellQuoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"billbridge/config"
	"billbridge/proxy/operate"
	"billbridge/proxy/store"
)

type storeBackup struct {
	decisionFlags
	File   string `arg:"" placeholder:"FILE"`
	Config string `required:"" placeholder:"FILE"`
	Made   bool
}

// Run copies the store, or records a backup that another tool has made.
func (c *storeBackup) Run(ctx context.Context) error {
	checked, err := config.Load(c.Config, c.env)
	if err != nil {
		return err
	}
	url := checked.Store.URL.Reveal()
	switch scheme, _, _ := strings.Cut(url, ":"); {
	case scheme == "":
		return fmt.Errorf("nothing to back up: %s has no store section", c.Config)
	case c.Made:
		return c.record(ctx, &checked.Admin)
	case scheme != "sqlite":
		file := quoteShell(c.File)
		return fmt.Errorf("the store is in PostgreSQL: set STORE_URL to store.url of %s, and run\n"+
			`  pg_dump --format=custom --file=%s --dbname="$STORE_URL"`+"\n"+
			"  billbridge store backup %s --made --config %s", c.Config, file, file, quoteShell(c.Config))
	}
	copied, err := store.Backup(ctx, url, c.File, func(written, of int64) {
		c.progressf("%s of about %s", mebibytes(written), mebibytes(of))
	})
	c.progressf("")
	if err != nil {
		return fmt.Errorf("the backup failed: %w", err)
	}
	given, refused := c.Admin != defaultAdmin, (*adminError)(nil)
	if err := c.record(ctx, &checked.Admin); err != nil && (given || errors.As(err, &refused)) {
		printf(c.err, "The audit log does not have this backup: %s\n", linesOf(err))
	}
	printf(c.out, "Wrote %s, %s, as of %s. Bills: %d, callback addresses: %d, callbacks: %d.\n",
		c.File, mebibytes(copied.Size), copied.At.Local().Format(time.RFC3339Nano),
		copied.Bills, copied.Addresses, copied.Callbacks)
	if checked.Rollout != nil {
		printf(c.out, "Later bills are not in the backup. After a restore, run billbridge rollout restored before "+
			"partners call.\n")
	}
	return nil
}

// record records the backup in the audit log of the gateway, which must run.
func (c *storeBackup) record(ctx context.Context, admin *config.Admin) error {
	if c.Admin == defaultAdmin {
		c.Admin = "http://" + admin.Listen
		if admin.TLS != nil {
			c.Admin = "https://" + admin.Listen
		}
	}
	return c.do(ctx, verb{path: "/store/backup", said: "nothing"}, nil, operate.Backup{File: c.File})
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// quoteShell quotes a word for a shell.
func quoteShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

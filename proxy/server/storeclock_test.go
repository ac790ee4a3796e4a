package server

import (
	"database/sql"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
	"billbridge/proxy/store"

	"github.com/prometheus/client_golang/prometheus"
)

// An audit log that cannot be read is in the log of the gateway: the metric of the last backup stays as it was.
func TestUnreadableAuditLogIsLogged(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "store.db")
	opened, err := store.Open(t.Context(), "sqlite:"+file)
	proxytest.Must(t, err)
	defer opened.Close()
	logs := &proxytest.Log{}
	s := &storeClock{store: opened, log: slog.New(slog.NewTextHandler(logs, nil)), backup: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "backup"}, nil)}
	proxytest.Must(t, s.tick(t.Context()))
	if logs.String() != "" {
		t.Errorf("logged %s", logs)
	}
	db, err := sql.Open("sqlite", "file:"+file)
	proxytest.Must(t, err)
	defer db.Close()
	_, err = db.Exec("ALTER TABLE billbridge_audit RENAME TO hidden")
	proxytest.Must(t, err)
	proxytest.Must(t, s.tick(t.Context()))
	if !strings.Contains(logs.String(), "the time of the last backup cannot be read from the audit log") || !strings.Contains(logs.String(), "billbridge_audit") {
		t.Errorf("logged %s", logs)
	}
}

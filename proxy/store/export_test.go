package store

import (
	"context"
	"time"
)

// OpenSmall is Open with SQLite's patience for another process's lock, and a bound in pages on its file (0 for none).
func OpenSmall(ctx context.Context, url string, busy time.Duration, pages int) (*Store, error) {
	return open(ctx, url, options{busy: busy, pages: pages})
}

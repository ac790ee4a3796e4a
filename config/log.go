package config

import (
	"log/slog"
	"time"
)

// Log says what is logged and when it is written.
type Log struct {
	// the longest time from a line of the access log to its write; 0 for no buffer. A killed process loses these lines.
	Flush  time.Duration `yaml:"-" constant:"100ms"`
	Buffer int           `yaml:"-" constant:"65536"` // the size of the buffer for these lines: a busy gateway's fit in
	// lines below it are not logged
	Level LogLevel `yaml:"level" words:"info warn error" default:"info"`
}

// A LogLevel is info, warn or error.
type LogLevel string

// Slog returns the level for log/slog.
func (l LogLevel) Slog() (level slog.Level) {
	_ = level.UnmarshalText([]byte(l)) // reads the words of the key
	return level
}

package config

import (
	"fmt"
	"log/slog"
	"time"

	"go.yaml.in/yaml/v4"
)

// Log says what is logged and when it is written.
type Log struct {
	Flush  DurationOrZero `yaml:"flush"`  // the longest time from a line of the access log to its write; 0s for no buffer
	Buffer Size           `yaml:"buffer"` // the size of the buffer for these lines
	Level  LogLevel       `yaml:"level"`  // lines below it are not logged
	Sample Sample         `yaml:"sample"`
}

// Sample says which requests have a line in the access log.
type Sample struct {
	OK Fraction `yaml:"ok"` // the fraction of successes; all other requests have a line
}

// A LogLevel is info, warn or error.
type LogLevel string

var logLevels = map[LogLevel]slog.Level{"info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

func (LogLevel) words() []string { return []string{"info", "warn", "error"} }

// UnmarshalYAML reads info, warn or error.
func (l *LogLevel) UnmarshalYAML(n *yaml.Node) error {
	if err := loadWord(n, l); err != nil {
		return fmt.Errorf("%w; there are no debug lines", err)
	}
	return nil
}

// Slog returns the level for log/slog.
func (l LogLevel) Slog() slog.Level { return logLevels[l] }

func (c *Config) checkLog() {
	s := c.source
	if longest := DurationOrZero(10 * time.Second); c.Log.Flush > longest {
		s.addProblem(fmt.Sprintf("must be at most %s, but is %s: a process that is killed loses the lines of this time", longest, c.Log.Flush), "log", "flush")
	}
	if b := c.Log.Buffer; b < 8<<10 || b > 64<<20 {
		s.addProblem(fmt.Sprintf("must be from 8KiB to 64MiB, but is %s", b), "log", "buffer")
	}
}

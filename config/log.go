package config

import "log/slog"

// Log says what is logged and when it is written.
type Log struct {
	// the longest time from a line of the access log to its write; 0s for no buffer
	Flush DurationOrZero `yaml:"flush" range:",10s" why:": a process that is killed loses the lines of this time" default:"100ms"`
	// the size of the buffer for these lines
	Buffer Size `yaml:"buffer" range:"8KiB,64MiB" default:"64KiB"`
	// lines below it are not logged
	Level  LogLevel `yaml:"level" words:"info warn error" default:"info"`
	Sample Sample   `yaml:"sample"`
}

// Sample says which requests have a line in the access log.
type Sample struct {
	OK Fraction `yaml:"ok" range:"0,1" default:"1"` // the fraction of successes; all other requests have a line
}

// A LogLevel is info, warn or error.
type LogLevel string

// Slog returns the level for log/slog.
func (l LogLevel) Slog() (level slog.Level) {
	_ = level.UnmarshalText([]byte(l)) // reads the words of the key
	return level
}

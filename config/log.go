package config

import "log/slog"

// Log says what is logged and when it is written.
type Log struct {
	Flush  DurationOrZero `yaml:"flush" range:",10s" why:": a process that is killed loses the lines of this time" default:"100ms"` // the longest time from a line of the access log to its write; 0s for no buffer
	Buffer Size           `yaml:"buffer" range:"8KiB,64MiB" default:"64KiB"`                                                        // the size of the buffer for these lines
	Level  LogLevel       `yaml:"level" words:"info warn error" default:"info"`                                                     // lines below it are not logged
	Sample Sample         `yaml:"sample"`
}

// Sample says which requests have a line in the access log.
type Sample struct {
	OK Fraction `yaml:"ok" range:"0,1" default:"1"` // the fraction of successes; all other requests have a line
}

// A LogLevel is info, warn or error.
type LogLevel string

var logLevels = map[LogLevel]slog.Level{"info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// Slog returns the level for log/slog.
func (l LogLevel) Slog() slog.Level { return logLevels[l] }

package proxytest

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync"

	"billbridge/config"
)

var tunings struct {
	sync.Mutex
	changes []func(*config.Config)
}

// Tuned returns a line for the text of a config: a comment, for which ParseConfig and LoadConfig call change. So tests
// change what a file cannot set. A line for another process must be that of a package variable: both processes have it.
func Tuned(change func(*config.Config)) string {
	tunings.Lock()
	defer tunings.Unlock()
	tunings.changes = append(tunings.changes, change)
	return fmt.Sprintf("\n# tuned %d\n", len(tunings.changes)-1)
}

var tunedLine = regexp.MustCompile(`(?m)^# tuned (\d+)$`)

func tune(c *config.Config, text string) {
	for _, line := range tunedLine.FindAllStringSubmatch(text, -1) {
		i, _ := strconv.Atoi(line[1])
		tunings.Lock()
		change := tunings.changes[i]
		tunings.Unlock()
		change(c)
	}
}

// LoadConfig is [config.Load] with the changes of Tuned.
func LoadConfig(path string, lookup func(string) (string, bool)) (*config.Config, error) {
	c, err := config.Load(path, lookup)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	tune(c, string(text))
	return c, err
}

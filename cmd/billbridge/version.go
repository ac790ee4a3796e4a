package main

import (
	"cmp"
	"os"
	"runtime"
	"runtime/debug"

	"billbridge/proxy/server"
)

// version is the release. CHANGELOG.md lists its changes.
const version = "0.1.0"

func versionLine() string { return build().String() }

// build returns the version of this program. The commit is "unknown" if the Go tool did not record it.
func build() server.Build {
	b := server.Build{Version: version, GoVersion: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	b.Revision = cmp.Or(b.Revision, "unknown")
	b.Host, _ = os.Hostname()
	return b
}

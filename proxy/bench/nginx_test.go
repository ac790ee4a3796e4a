package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"billbridge/proxy/proxytest"
)

// nginx takes both configs, and the one with Lua names the modules and folders.
func TestNginxTakesTheConfig(t *testing.T) {
	t.Parallel()
	for _, lua := range []bool{false, true} {
		c := nginxConfig{Dir: t.TempDir(), At: "127.0.0.1:18080", Backend: "127.0.0.1:18081", Keep: 16}
		found := true
		if lua {
			if found = c.findLua(); !found {
				c.Modules, c.Cjson = []string{"/m/ndk.so", "/m/lua.so"}, "/so"
			}
		}
		var text strings.Builder
		if err := nginxTemplate.Execute(&text, c); err != nil {
			t.Fatal(err)
		}
		wants := []string{"listen 127.0.0.1:18080;", "server 127.0.0.1:18081;\n\t\tkeepalive 16;", "access_log off"}
		if lua {
			wants = append(wants[:2], "load_module "+c.Modules[0]+";\n", `cpath "`+c.Cjson+`/?.so;;";`, "access_log "+c.Dir+"/access.log line;")
		}
		for _, want := range wants {
			if !strings.Contains(text.String(), want) {
				t.Errorf("lua=%t: the config lacks %q:\n%s", lua, want, text.String())
			}
		}
		if program := nginxPath(); found && program != "" {
			file := filepath.Join(c.Dir, "nginx.conf")
			proxytest.WriteFile(t, file, text.String())
			if out, err := exec.Command(program, "-t", "-p", c.Dir, "-c", file).CombinedOutput(); err != nil || strings.Contains(string(out), "[warn]") {
				t.Errorf("lua=%t: %v\n%s", lua, err, out)
			}
		}
	}
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// nginx takes both configs.
func TestNginxTakesTheConfig(t *testing.T) {
	t.Parallel()
	program, err := nginxPath()
	if err != nil {
		t.Skip(err)
	}
	for _, lua := range []bool{false, true} {
		c := nginxConfig{Dir: t.TempDir(), At: "127.0.0.1:18080", Backend: "127.0.0.1:18081", Keep: 16}
		if lua {
			if err := c.findLua(program); err != nil {
				t.Skip(err)
			}
		}
		var text strings.Builder
		if err := c.write(&text); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(text.String(), "access_log off"); got == lua {
			t.Errorf("lua=%t: access_log off is %t", lua, got)
		}
		file := filepath.Join(c.Dir, "nginx.conf")
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(program, "-t", "-p", c.Dir, "-c", file).CombinedOutput(); err != nil || strings.Contains(string(out), "[warn]") {
			t.Errorf("lua=%t: %v\n%s\n%s", lua, err, out, text.String())
		}
	}
}

func TestLuaConfigNamesModulesAndFolders(t *testing.T) {
	t.Parallel()
	c := nginxConfig{
		Dir: "/tmp/d", At: "127.0.0.1:1", Backend: "127.0.0.1:2", Keep: 16,
		Lua: true, Modules: []string{"/m/ndk.so", "/m/lua.so"}, LuaPath: "/lua/?.lua", LuaCPath: "/so/?.so",
	}
	var text strings.Builder
	if err := c.write(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"load_module /m/ndk.so;\nload_module /m/lua.so;\n", "listen 127.0.0.1:1;", "server 127.0.0.1:2;\n\t\tkeepalive 16;",
		`lua_package_path "/lua/?.lua;;";`, `lua_package_cpath "/so/?.so;;";`, "access_log /tmp/d/access.log line;", `cjson = require "cjson.safe"`,
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the config lacks %q:\n%s", want, text.String())
		}
	}
}

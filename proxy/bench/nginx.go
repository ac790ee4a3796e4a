package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed nginx.conf.tmpl
var nginxText string

var nginxTemplate = template.Must(template.New("nginx.conf").Parse(nginxText))

// nginxConfig is what the config of nginx depends on.
type nginxConfig struct {
	Dir, At, Backend string
	Pair             string   // file with a certificate and its key; "" without TLS
	Keep             int      // idle connections to the backend
	Modules          []string // files for Lua: translate, log and count; otherwise pass the call through without a log
	Cjson            string   // the folder of the library
}

// findLua adds the modules and the library that Lua needs, where Debian has them. It reports whether they are
// installed.
func (c *nginxConfig) findLua() bool {
	c.Modules, _ = filepath.Glob("/usr/lib/nginx/modules/ndk_http_module.so") // the Lua module needs it
	lua, _ := filepath.Glob("/usr/lib/nginx/modules/ngx_http_lua_module.so")
	cjson, _ := filepath.Glob("/usr/lib/*/lua/5.1/cjson.so")
	if len(lua) == 0 || len(cjson) == 0 {
		return false
	}
	c.Modules, c.Cjson = append(c.Modules, lua...), filepath.Dir(cjson[0])
	return true
}

// nginxPath returns the program, or "". Its folder is not in the PATH of every user.
func nginxPath() string {
	program, _ := exec.LookPath("nginx")
	other, _ := exec.LookPath("/usr/sbin/nginx")
	return cmp.Or(program, other)
}

// nginx starts nginx. If it cannot be measured on this machine, p is nil, and missing says why.
func (l *lab) nginx(lua bool) (p *process, missing string) {
	program := nginxPath()
	c := nginxConfig{
		Dir: filepath.Join(l.dir, fmt.Sprintf("nginx%d", len(l.started))),
		At:  freeAddress(), Backend: l.front, Pair: l.pair, Keep: keptConnections,
	}
	switch {
	case program == "":
		return nil, "nginx is not installed (Debian: nginx-light)"
	case lua && !c.findLua():
		return nil, "the Lua module of nginx or cjson is not installed (Debian: libnginx-mod-http-lua, lua-cjson)"
	}
	must(os.Mkdir(c.Dir, 0o755))
	file := filepath.Join(c.Dir, "nginx.conf")
	var text strings.Builder
	must(nginxTemplate.Execute(&text, c))
	must(os.WriteFile(file, []byte(text.String()), 0o600))
	if out, err := exec.Command(program, "-t", "-q", "-p", c.Dir, "-c", file).CombinedOutput(); err != nil {
		return nil, fmt.Sprintf("nginx refuses the config: %s", out)
	}
	p = l.start(c.At, program, "-p", c.Dir, "-c", file)
	if lua {
		p.access = filepath.Join(c.Dir, "access.log")
	}
	return p, ""
}

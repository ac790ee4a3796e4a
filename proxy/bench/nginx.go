package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

//go:embed nginx.conf.tmpl
var nginxText string

var nginxTemplate = template.Must(template.New("nginx.conf").Parse(nginxText))

// nginxConfig is what the config of nginx depends on.
type nginxConfig struct {
	Dir, At, Backend  string
	Keep              int      // idle connections to the backend
	Lua               bool     // translate, log and count; otherwise pass the call through without a log
	Modules           []string // files
	LuaPath, LuaCPath string   // where Lua finds cjson and the library of the module
}

func (c nginxConfig) write(to io.Writer) error { return nginxTemplate.Execute(to, c) }

// errNoNginx and errNoLua are reasons why nginx is not measured.
var (
	errNoNginx = errors.New("nginx is not installed (Debian: nginx-light)")
	errNoLua   = errors.New("the Lua module of nginx or cjson is not installed (Debian: libnginx-mod-http-lua, lua-cjson)")
)

var modulesPath = regexp.MustCompile(`--modules-path=(\S+)`)

// findLua adds the modules and search paths that Lua needs. Distributions have them in different folders.
func (c *nginxConfig) findLua(nginx string) error {
	about, err := exec.Command(nginx, "-V").CombinedOutput()
	if err != nil {
		return fmt.Errorf("nginx -V: %w: %s", err, about)
	}
	folders := []string{"/usr/lib/nginx/modules", "/usr/lib64/nginx/modules", "/usr/share/nginx/modules", "/usr/local/libexec/nginx"}
	if m := modulesPath.FindSubmatch(about); m != nil {
		folders = append([]string{string(m[1])}, folders...)
	}
	lua := firstFile(folders, "ngx_http_lua_module.so")
	cjson := firstFile([]string{"/usr/lib/*/lua/5.1", "/usr/lib/lua/5.1", "/usr/lib64/lua/5.1", "/usr/local/lib/lua/5.1"}, "cjson.so")
	if lua == "" || cjson == "" {
		return errNoLua
	}
	if kit := firstFile(folders, "ndk_http_module.so"); kit != "" {
		c.Modules = append(c.Modules, kit) // the Lua module needs it, if it is not built in
	}
	c.Lua, c.Modules = true, append(c.Modules, lua)
	c.LuaPath, c.LuaCPath = "/usr/share/lua/5.1/?.lua;/usr/local/share/lua/5.1/?.lua", filepath.Dir(cjson)+"/?.so"
	return nil
}

// firstFile returns the first file of that name in one of the folders, or "". A folder can be a pattern.
func firstFile(folders []string, name string) string {
	for _, folder := range folders {
		if found, _ := filepath.Glob(filepath.Join(folder, name)); len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// nginxPath returns the program. Its folder is not in the PATH of every user.
func nginxPath() (string, error) {
	if path, err := exec.LookPath("nginx"); err == nil {
		return path, nil
	}
	if path := firstFile([]string{"/usr/sbin", "/usr/local/sbin"}, "nginx"); path != "" {
		return path, nil
	}
	return "", errNoNginx
}

// nginx starts nginx. If it cannot be measured on this machine, p is nil, and missing says why.
func (l *lab) nginx(lua bool) (p *process, missing string, err error) {
	program, err := nginxPath()
	if err != nil {
		return nil, err.Error(), nil
	}
	at, err := l.freeAddress()
	if err != nil {
		return nil, "", err
	}
	c := nginxConfig{Dir: filepath.Join(l.dir, fmt.Sprintf("nginx%d", len(l.started))), At: at, Backend: l.backend, Keep: keptConnections}
	if lua {
		if err := c.findLua(program); err != nil {
			return nil, err.Error(), nil
		}
	}
	file := filepath.Join(c.Dir, "nginx.conf")
	if err := os.Mkdir(c.Dir, 0o755); err != nil {
		return nil, "", err
	}
	var text strings.Builder
	if err := c.write(&text); err != nil {
		return nil, "", err
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return nil, "", err
	}
	if out, err := exec.Command(program, "-t", "-q", "-p", c.Dir, "-c", file).CombinedOutput(); err != nil {
		return nil, fmt.Sprintf("nginx refuses the config: %s", strings.TrimSpace(string(out))), nil
	}
	p, err = l.start(at, program, "-p", c.Dir, "-c", file)
	if p != nil && lua {
		p.access = filepath.Join(c.Dir, "access.log")
	}
	return p, "", err
}

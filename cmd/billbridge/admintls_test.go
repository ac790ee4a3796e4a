package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"billbridge/proxy/proxytest"
)

// folderWithCertificate returns a new folder with a certificate for 127.0.0.1, front.crt and front.key, and its CA, ca.pem.
func folderWithCertificate(t *testing.T) string {
	t.Helper()
	c, dir := proxytest.NewCertificate(t, "test", nil), t.TempDir()
	for name, data := range map[string][]byte{"front.crt": c.Cert, "ca.pem": c.Cert, "front.key": c.Key} {
		proxytest.WriteFile(t, filepath.Join(dir, name), data)
	}
	return dir
}

// The commands reach an admin listener with TLS and a private CA. Each mistake about the certificate has an error that says what to do.
func TestCommandsReachAnAdminListenerWithTLS(t *testing.T) {
	t.Parallel()
	dir, other := folderWithCertificate(t), folderWithCertificate(t)
	const text = `
listen: 127.0.0.1:0
admin: {listen: 127.0.0.1:0, token: a-token, tls: {cert: front.crt, key: front.key}}
upstreams: {new: {form: v2, url: https://new.example.com}}
store: {url: "sqlite:billbridge.db"}
`
	at := serve(t, dir, nil, text).operator
	_, port, _ := net.SplitHostPort(at)
	ca, wrongCA := filepath.Join(dir, "ca.pem"), filepath.Join(other, "ca.pem")
	for name, c := range map[string]struct {
		args []string
		ca   string // in the environment
		code int
		want string
	}{
		"flag":           {[]string{"--admin", "https://" + at, "--admin-ca", ca}, "", exitOK, "machine "},
		"environment":    {[]string{"--admin", "https://" + at}, ca, exitOK, "machine "},
		"no CA":          {[]string{"--admin", "https://" + at}, "", exitError, "give its PEM file with --admin-ca or in BILLBRIDGE_ADMIN_CA"},
		"another CA":     {[]string{"--admin", "https://" + at, "--admin-ca", wrongCA}, "", exitError, "--admin-ca"},
		"another name":   {[]string{"--admin", "https://localhost:" + port, "--admin-ca", ca}, "", exitError, "Give a host name of the certificate with --admin"},
		"no certificate": {[]string{"--admin", "https://" + at, "--admin-ca", filepath.Join(dir, "front.key")}, "", exitError, "--admin-ca: there is no PEM certificate in "},
		"no file":        {[]string{"--admin", "https://" + at, "--admin-ca", filepath.Join(dir, "none.pem")}, "", exitError, "--admin-ca: open "},
		"no TLS":         {[]string{"--admin", "http://" + at}, "", exitError, "uses TLS (admin.tls in its config): give an https URL with --admin"},
		"password":       {[]string{"--admin", "https://user:s3cr3t@" + at}, "", exitUsage, "without user and password"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := exec.Command("billbridge", append([]string{"store", "clock", "--token", "a-token"}, c.args...)...)
			command.Env = append(os.Environ(), noRaceSleep, "BILLBRIDGE_ADMIN_CA="+c.ca)
			out, _ := command.CombinedOutput() // the exit code is checked
			if code := command.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.want) || strings.Contains(string(out), "s3cr3t") {
				t.Errorf("exit code %d, output:\n%s\nwant %d and %q", code, out, c.code, c.want)
			}
		})
	}
}

// A renewed certificate of the admin listener is used from the next connection on, and a reload can name other files.
func TestAdminCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	dir, renewed, moved := folderWithCertificate(t), folderWithCertificate(t), folderWithCertificate(t)
	file := filepath.Join(dir, "billbridge.yaml")
	config := func(folder string) (text string) {
		text = "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0, tls: {cert: " + folder + "/front.crt, key: " + folder + "/front.key}}\n" +
			"upstreams: {new: {form: v2, url: https://new.example.com}}\nstore: {url: \"sqlite:billbridge.db\"}\n"
		proxytest.WriteFile(t, file, text)
		return text
	}
	gateway := serve(t, dir, nil, config(dir))
	reached := func(when, ca string) {
		t.Helper()
		code, _, errs := runCommand(t, false, "store", "clock", "--admin", "https://"+gateway.operator,
			"--admin-ca", filepath.Join(ca, "ca.pem"))
		equal(t, code, exitOK, when, errs)
	}
	reached("at the start", dir)
	later := time.Now().Add(time.Minute)
	for _, name := range []string{"front.crt", "front.key"} {
		data := proxytest.ReadFile(t, filepath.Join(renewed, name))
		must(t, errors.Join(os.WriteFile(filepath.Join(dir, name), data, 0o600),
			os.Chtimes(filepath.Join(dir, name), later, later)))
	}
	reached("renewed", renewed)
	config(moved)
	must(t, gateway.cmd.Process.Signal(syscall.SIGHUP))
	works(t)(gateway.await("stderr", `"config reloaded"`))
	reached("after a reload with other files", moved)
}

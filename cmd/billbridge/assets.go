package main

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"billbridge/config"
)

// An asset is a file that the binary has, in the version that fits it.
type asset struct {
	name string // in the command
	file string // its usual name
	help string
	text func() ([]byte, error)
}

//go:embed assets
var assetFiles embed.FS

// embedded returns the text of a file in the folder assets.
func embedded(file string) func() ([]byte, error) {
	return func() ([]byte, error) { return assetFiles.ReadFile("assets/" + file) }
}

// assets are all assets, in the order of the list.
var assets = []asset{
	{"service", "billbridge.service", "systemd: unit of the gateway", embedded("billbridge.service")},
	{"socket", "billbridge.socket", "systemd: unit of the port of partners, which stays open during a restart", embedded("billbridge.socket")},
	{"compose", "compose.yaml", "Compose: two gateways, PostgreSQL, two sandboxes, Prometheus", embedded("compose.yaml")},
	{"kubernetes", "kubernetes.yaml", "Kubernetes: a deployment of two gateways, with a disruption budget", embedded("kubernetes.yaml")},
	{"alerts", "alerts.yaml", "Prometheus: rules for alerts", embedded("alerts.yaml")},
	{"runbook", "RUNBOOK.md", "what to do when an alert fires; the alerts have links to it", embedded("RUNBOOK.md")},
	{"dashboard", "dashboard.json", "Grafana: dashboard", embedded("dashboard.json")},
	{"schema", "billbridge.schema.json", "JSON Schema of the config, for editors", config.Schema},
	{"man", "billbridge.1", "manual page", manPage},
	{"completion-bash", "billbridge", "completion of bash", bashCompletion},
	{"completion-zsh", "_billbridge", "completion of zsh", zshCompletion},
	{"completion-fish", "billbridge.fish", "completion of fish", fishCompletion},
}

type assetsCommand struct {
	Name string `arg:"" help:"The asset, or list for all of them."`
}

// Help implements kong's detailed help.
func (assetsCommand) Help() string {
	return examples("billbridge assets list", "billbridge assets service > /etc/systemd/system/billbridge.service",
		"billbridge assets schema > billbridge.schema.json", "billbridge assets completion-bash > /usr/share/bash-completion/completions/billbridge",
		"billbridge assets man > /usr/local/share/man/man1/billbridge.1")
}

// arguments returns the values of Name, for the completion.
func (*assetsCommand) arguments() []string {
	names := []string{"list"}
	for _, a := range assets {
		names = append(names, a.name)
	}
	return names
}

// Run prints the list or an asset.
func (c *assetsCommand) Run(s system) error {
	if c.Name == "list" {
		for _, a := range assets {
			printf(s.out, "%-15s %-22s %s\n", a.name, a.file, a.help)
		}
		return nil
	}
	i := slices.IndexFunc(assets, func(a asset) bool { return a.name == c.Name || a.file == c.Name })
	if i < 0 {
		return usageError(fmt.Sprintf("there is no asset %q; the assets are %s", c.Name, strings.Join(c.arguments()[1:], ", ")))
	}
	text, err := assets[i].text()
	if err != nil {
		return err
	}
	_, err = s.documents.Write(text)
	return err
}

package main

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"billbridge/config"
	"billbridge/proxy/notify"
)

// An asset is a file that the binary contains, for the version of the binary.
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
	{"service", "billbridge.service", "systemd: service unit", embedded("billbridge.service")},
	{
		"socket", "billbridge.socket", "systemd: socket unit; the port for partners stays open during a restart",
		embedded("billbridge.socket"),
	},
	{
		"compose", "compose.yaml", "Compose: two gateways, PostgreSQL, two sandboxes, Prometheus",
		embedded("compose.yaml"),
	},
	{"kubernetes", "kubernetes.yaml", "Kubernetes: manifests for two gateways", embedded("kubernetes.yaml")},
	{"patroni", "patroni.yaml", "Patroni: a node of a highly available PostgreSQL", embedded("patroni.yaml")},
	{"haproxy", "haproxy.cfg", "HAProxy: the address of the primary of that PostgreSQL", embedded("haproxy.cfg")},
	{"alerts", "alerts.yaml", "Prometheus: alert rules", embedded("alerts.yaml")},
	{"runbook", "RUNBOOK.md", "what to do when an alert fires", embedded("RUNBOOK.md")},
	{"runbook-ko", "RUNBOOK.ko.md", "the same in Korean", embedded("RUNBOOK.ko.md")},
	{"dashboard", "dashboard.json", "Grafana: dashboard", embedded("dashboard.json")},
	{
		"sandbox-overlay", "sandbox-overlay.yaml",
		"overlay of the billing table, for a gateway in front of the sandbox",
		embedded("sandbox-overlay.yaml"),
	},
	{"schema", "billbridge.schema.json", "JSON Schema of the config, for editors", config.Schema},
	{"events-schema", "billbridge-event.schema.json", "JSON Schema of the events that notify sends", notify.Schema},
	{"completion-bash", "billbridge", "bash: completion of commands and flags", embedded("completion.bash")},
}

type assetsCommand struct {
	Print        assetCommand   `cmd:"" default:"withargs" help:"Print a file that is the same for every gateway (the default)."`
	PartnerGuide guideCommand   `cmd:"" help:"Print a page for the developer of a partner's program."`
	Openapi      openapiCommand `cmd:"" help:"Print the interface that partners of one form see, as an OpenAPI 3.1 document, or as requests for an HTTP client."`
}

type assetCommand struct {
	Name string `arg:"" help:"The name of the asset. list prints all names."`
}

// arguments returns the values of Name, for the completion.
func (*assetCommand) arguments() []string {
	names := []string{"list"}
	for _, a := range assets {
		names = append(names, a.name)
	}
	return names
}

// Run prints the list or an asset.
func (c *assetCommand) Run(s system) error {
	if c.Name == "list" {
		for _, a := range assets {
			printf(s.out, "%-16s %-22s %s\n", a.name, a.file, a.help)
		}
		return nil
	}
	i := slices.IndexFunc(assets, func(a asset) bool { return a.name == c.Name || a.file == c.Name })
	if i < 0 {
		names := strings.Join(c.arguments()[1:], ", ")
		return usageError(fmt.Sprintf("there is no asset %q: use one of %s", c.Name, names))
	}
	return s.write(assets[i].text())
}

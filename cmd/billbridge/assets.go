package main

import (
	"embed"
	"fmt"
	"slices"

	"billbridge/config"
	"billbridge/translate"
	"billbridge/translate/openapi"
)

// An asset is a file that the binary contains, for the version of the binary.
type asset struct {
	name string // in the command
	file string // its usual name
	help string
	text func() ([]byte, error) // if nil, it is a file of the folder assets
}

//go:embed assets
var assetFiles embed.FS

// embedded returns the text of a file in the folder assets.
func embedded(file string) ([]byte, error) { return assetFiles.ReadFile("assets/" + file) }

// assets are all assets, in the order of the list.
var assets = []asset{
	{"service", "billbridge.service", "systemd: service unit", nil},
	{
		"socket", "billbridge.socket",
		"systemd: socket unit; the port for partners stays open during a restart", nil,
	},
	{
		"compose", "compose.yaml",
		"Compose: two gateways, PostgreSQL, two sandboxes, Prometheus", nil,
	},
	{"kubernetes", "kubernetes.yaml", "Kubernetes: manifests for two gateways", nil},
	{"patroni", "patroni.yaml", "Patroni: a node of a highly available PostgreSQL", nil},
	{"haproxy", "haproxy.cfg", "HAProxy: the address of the primary of that PostgreSQL", nil},
	{"alerts", "alerts.yaml", "Prometheus: alert rules", nil},
	{"runbook", "RUNBOOK.md", "what to do when an alert fires", nil},
	{"runbook-ko", "RUNBOOK.ko.md", "the same in Korean", nil},
	{"dashboard", "dashboard.json", "Grafana: dashboard", nil},
	{
		"sandbox-overlay", "sandbox-overlay.yaml",
		"overlay of the billing table, for a gateway in front of the sandbox", nil,
	},
	{"schema", "billbridge.schema.json", "JSON Schema of the config, for editors", config.Schema},
}

// assetOpenAPI is the name of the asset that is made for a partner's form, and not in the list.
const assetOpenAPI = "openapi"

type assetsCommand struct {
	Name string `arg:"" optional:""`

	Form translate.Form `placeholder:"FORM"`
	tableFlags
}

// Run prints the list or an asset.
func (c *assetsCommand) Run(s system) error {
	switch {
	case c.Name == assetOpenAPI && c.Form == "":
		return usageError("missing flags: --form=FORM")
	case c.Name == assetOpenAPI:
		return c.printOpenAPI(s)
	case c.Form != "" || c.tableFlags != tableFlags{}:
		return usageError("--form, --config, --table and --overlay are for openapi")
	case c.Name == "":
		for _, a := range assets {
			printf(s.out, "%-16s %-22s %s\n", a.name, a.file, a.help)
		}
		return nil
	}
	i := slices.IndexFunc(assets, func(a asset) bool { return a.name == c.Name || a.file == c.Name })
	if i < 0 {
		return usageError(fmt.Sprintf("there is no asset %q: billbridge assets lists them", c.Name))
	}
	if assets[i].text == nil {
		return s.write(embedded(assets[i].file))
	}
	return s.write(assets[i].text())
}

// printOpenAPI prints the interface that partners of one form see.
func (c *assetsCommand) printOpenAPI(s system) error {
	table, loaded, err := c.load(s)
	if err != nil {
		return err
	}
	if forms := table.Forms(); !slices.Contains(forms[:], c.Form) {
		return usageError(fmt.Sprintf("--form must be %s or %s, but is %q", forms[0], forms[1], c.Form))
	}
	server := ""
	if loaded != nil {
		server = loaded.PartnerURL()
	}
	text, err := openapi.Document(table, c.Form, server)
	return s.write(append(text, '\n'), err)
}

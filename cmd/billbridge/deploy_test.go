package main

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"billbridge/config"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/server"
	"billbridge/translate"

	"go.yaml.in/yaml/v4"
)

// checkedConfig checks a config of an asset. Its secrets are in the environment, or in files that the test puts into another folder.
func checkedConfig(t *testing.T, text string) *config.Config {
	t.Helper()
	const mounted = "/run/secrets/billbridge"
	secrets := t.TempDir()
	for name, value := range map[string]string{"admin-token": "0123456789abcdef", "scraper-token": "another-89abcdef", "store-url": "postgres://u@db.example.com/b?sslmode=verify-full"} {
		proxytest.WriteFile(t, filepath.Join(secrets, name), value)
	}
	env := map[string]string{"BILLBRIDGE_ADMIN_TOKEN": "0123456789abcdef", "SCRAPER_TOKEN": "another-89abcdef", "STORE_URL": "postgres://u:p@postgres/b?sslmode=disable"}
	proxytest.WriteFile(t, filepath.Join(secrets, "sandbox-overlay.yaml"), embeddedText(t, "sandbox-overlay.yaml"))
	c, err := config.Parse(translate.File{Name: filepath.Join(secrets, "billbridge.yaml"), Data: []byte(strings.ReplaceAll(text, mounted, secrets))}, func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

// checkStop fails if a process can be killed before its drain has ended.
func checkStop(t *testing.T, c *config.Config, grace time.Duration) {
	t.Helper()
	if drain := time.Duration(c.Drain.Delay) + server.DrainTimeout(c); grace < drain+10*time.Second { // then the last counts of the rollout are stored (4 s)
		t.Errorf("the process is killed after %s, and its drain may take %s", grace, drain)
	}
}

func embeddedText(t *testing.T, name string) []byte {
	t.Helper()
	text, err := embedded(name)
	must(t, err)
	return text
}

// The config in the Compose file passes check, the commands of the sandboxes are known, and a gateway can drain before it is killed.
func TestComposeFile(t *testing.T) {
	t.Parallel()
	var file struct {
		Services map[string]struct {
			Image    string
			Command  []string
			Grace    string `yaml:"stop_grace_period"`
			Configs  []struct{ Source string }
			Networks struct{ Default struct{ Aliases []string } }
		}
		Configs map[string]struct{ Content, File string }
	}
	must(t, yaml.Unmarshal(embeddedText(t, "compose.yaml"), &file))
	lacks(t, strings.ReplaceAll(file.Configs["gateway"].Content, "$$", ""), "$",
		"Compose would replace a variable in the config of the gateways: write $$")
	c := checkedConfig(t, strings.ReplaceAll(file.Configs["gateway"].Content, "$$", "$"))
	gateways, sandboxes := 0, 0
	for name, s := range file.Services {
		for _, used := range s.Configs {
			if _, ok := file.Configs[used.Source]; !ok {
				t.Errorf("%s uses the config %s, which is not there", name, used.Source)
			}
		}
		switch {
		case s.Image != "billbridge:"+version:
		case len(s.Command) == 0: // that of the image
			gateways++
			equal(t, s.Networks.Default.Aliases, []string{c.Callbacks.PublicURL.Hostname()}, "where sandboxes send callbacks")
			grace, err := time.ParseDuration(s.Grace)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			checkStop(t, c, grace)
		default:
			sandboxes++
			if u := c.Upstreams.Find(name); u == nil || u.Address.Host != name+":8081" || !slices.Contains(s.Command, "http://"+name+":8081") {
				t.Errorf("%s is not an upstream of the gateways", name)
			}
			equal(t, run(t.Context(), append(s.Command, "--help"), system{out: io.Discard, err: os.Stderr}), exitOK,
				name, s.Command)
		}
	}
	if gateways != 2 || sandboxes != 2 || len(file.Services) != 6 {
		t.Errorf("%d gateways, %d sandboxes, %d services, want 2, 2, 6", gateways, sandboxes, len(file.Services))
	}
}

// A probe of Kubernetes.
type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
	Period  int                         `yaml:"periodSeconds"`
	Failure int                         `yaml:"failureThreshold"`
}

// The parts of a manifest that the test compares.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Replicas     int
		MinAvailable int `yaml:"minAvailable"`
		Selector     map[string]any
		Ports        []struct {
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Grace    int `yaml:"terminationGracePeriodSeconds"`
				Affinity struct {
					Apart struct {
						Preferred []struct {
							Term struct {
								Key    string `yaml:"topologyKey"`
								Labels struct {
									Match map[string]string `yaml:"matchLabels"`
								} `yaml:"labelSelector"`
							} `yaml:"podAffinityTerm"`
						} `yaml:"preferredDuringSchedulingIgnoredDuringExecution"`
					} `yaml:"podAntiAffinity"`
				}
				Containers []struct {
					Image     string
					Args      []string
					Ports     []struct{ Name string }
					Lifecycle struct {
						PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
					}
					Startup   probe `yaml:"startupProbe"`
					Readiness probe `yaml:"readinessProbe"`
					Liveness  probe `yaml:"livenessProbe"`
				}
			}
		}
	}
}

// The config in the manifests passes check. A pod drains after its preStop and before it is killed, and takes connections until its readiness probe has failed. The
// start is not ended while it waits for the store. A drain of nodes leaves a replica, and the replicas run on different nodes.
func TestKubernetesManifests(t *testing.T) {
	t.Parallel()
	all := map[string]manifest{}
	for decoder := yaml.NewDecoder(bytes.NewReader(embeddedText(t, "kubernetes.yaml"))); ; {
		var m manifest
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all[m.Kind+" "+m.Metadata.Name] = m
	}
	c := checkedConfig(t, all["ConfigMap billbridge"].Data["billbridge.yaml"])
	if c.Callbacks == nil {
		t.Error("no callbacks")
	}
	d := all["Deployment billbridge"].Spec
	if d.Replicas < 2 || all["PodDisruptionBudget billbridge"].Spec.MinAvailable >= d.Replicas || len(d.Template.Spec.Containers) != 1 {
		t.Fatalf("%+v", d)
	}
	if apart := d.Template.Spec.Affinity.Apart.Preferred; len(apart) != 1 || apart[0].Term.Key != "kubernetes.io/hostname" ||
		!maps.Equal(apart[0].Term.Labels.Match, d.Template.Metadata.Labels) {
		t.Errorf("the replicas may all run on one node: %+v", apart)
	}
	pod := d.Template.Spec.Containers[0]
	if pod.Lifecycle.PreStop.Sleep.Seconds == 0 {
		t.Error("no preStop")
	}
	checkStop(t, c, time.Duration(d.Template.Spec.Grace-pod.Lifecycle.PreStop.Sleep.Seconds)*time.Second)
	if fails := time.Duration(pod.Readiness.Period*pod.Readiness.Failure) * time.Second; fails == 0 || time.Duration(c.Drain.Delay) <= fails {
		t.Errorf("drain.delay is %s, and the readiness probe fails after %s", time.Duration(c.Drain.Delay), fails)
	}
	if starts := time.Duration(pod.Startup.Period*pod.Startup.Failure) * time.Second; starts < c.Store.Wait {
		t.Errorf("a start may take %s, and waits for the store for %s", starts, c.Store.Wait)
	}
	for _, p := range []probe{pod.Startup, pod.Readiness, pod.Liveness} {
		if (p.HTTPGet.Path != "/-/healthy" && p.HTTPGet.Path != "/-/ready") || p.HTTPGet.Port != "admin" {
			t.Errorf("probe %+v", p)
		}
	}
	if pod.Image != "billbridge:"+version || run(t.Context(), append(pod.Args, "--help"), system{out: io.Discard, err: os.Stderr}) != exitOK {
		t.Errorf("image %s, arguments %q", pod.Image, pod.Args)
	}
	for name, port := range map[string]string{"Service billbridge": "partners", "Service billbridge-admin": "admin"} {
		s := all[name].Spec
		if s.Selector["app.kubernetes.io/name"] != d.Template.Metadata.Labels["app.kubernetes.io/name"] || len(s.Ports) != 1 || s.Ports[0].TargetPort != port ||
			!slices.ContainsFunc(pod.Ports, func(p struct{ Name string }) bool { return p.Name == port }) {
			t.Errorf("%s: %+v", name, s)
		}
	}
	equal(t, len(all), 5, "manifests")
}

// A round of Patroni's loop ends before the lock of the primary does. HAProxy connects to the port of PostgreSQL, checks that of Patroni, and
// ends the connections to a former primary.
func TestPatroniAndHAProxyFilesFit(t *testing.T) {
	t.Parallel()
	var node struct {
		Restapi   struct{ Listen string }
		Bootstrap struct {
			DCS struct {
				TTL, Wait, Retry int
				Synchronous      bool `yaml:"synchronous_mode"`
			}
		}
		Postgresql struct{ Listen string }
	}
	text := strings.NewReplacer("loop_wait:", "wait:", "retry_timeout:", "retry:").Replace(string(embeddedText(t, "patroni.yaml")))
	must(t, yaml.Unmarshal([]byte(text), &node))
	if d := node.Bootstrap.DCS; d.TTL < 20 || d.Wait == 0 || d.Retry == 0 || d.Wait+2*d.Retry > d.TTL || !d.Synchronous {
		t.Errorf("a primary would lose its lock while etcd is slow, or the cluster can lose writes: %+v", d)
	}
	_, database, _ := strings.Cut(node.Postgresql.Listen, ":")
	_, check, _ := strings.Cut(node.Restapi.Listen, ":")
	haproxy := string(embeddedText(t, "haproxy.cfg"))
	for _, server := range []string{"pg1", "pg2", "pg3"} {
		has(t, haproxy, "server "+server+" "+server+":"+database+" check port "+check+"\n", "haproxy.cfg")
	}
	page, err := os.ReadFile(filepath.Join(module, "proxy/store/HIGH-AVAILABILITY.md"))
	if _, block, _ := strings.Cut(haproxy, ":5000\n"); err != nil || block == "" || !strings.Contains(string(page), block) {
		t.Errorf("HIGH-AVAILABILITY.md lacks these lines of haproxy.cfg (%v):\n%s", err, block)
	}
	for _, line := range []string{"http-check send meth OPTIONS uri /primary\n", "on-marked-down shutdown-sessions\n"} {
		has(t, haproxy, line, "haproxy.cfg")
	}
}

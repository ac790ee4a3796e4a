package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"billbridge/proxy/operate"
	"billbridge/proxy/proxytest"
	"billbridge/proxy/routing"

	"golang.org/x/text/unicode/norm"
)

// If the gateway fails with 5xx, the store may still make the change. The command must not call it refused.
func TestFailedChangeIsReportedAsUnknown(t *testing.T) {
	t.Parallel()
	const unknown = "Unless it says otherwise, the change may have been made. To see, run billbridge rollout status\n"
	for _, row := range []struct {
		status int
		want   string
	}{
		{http.StatusInternalServerError, "billbridge: the gateway failed (500): store: a timeout\n" + unknown},
		{http.StatusBadGateway, "billbridge: the gateway failed (502): store: a timeout\n" + unknown},
		{http.StatusConflict, "billbridge: the gateway refused the request (409): store: a timeout\n"},
	} {
		gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "store: a timeout", row.status)
		}))
		t.Cleanup(gateway.Close)
		for _, change := range [][]string{
			{"stop", "--force"}, {"resume"}, {"restored"}, {"set", "--default", "--stage", "old"}, {"set", "--default", "--stage", "default"}, {"reset", "--all"},
		} {
			code, out, errs := runCommand(t, false, append(append([]string{"rollout"}, change...), "--by", "anna", "--admin", gateway.URL)...)
			if code != exitError || out != "" || errs != row.want {
				t.Errorf("%s: exit code %d, %q, %q, want %q", change, code, out, errs, row.want)
			}
		}
		want := strings.TrimSuffix(row.want, unknown) // a read changes nothing
		if code, out, errs := runCommand(t, false, "rollout", "status", "--admin", gateway.URL); code != exitError || out != "" || errs != want {
			t.Errorf("status: exit code %d, %q, %q, want %q", code, out, errs, want)
		}
	}
}

// What is given as --partner and is no hash may be a key: it is not sent.
func TestOnlyAHashOfAPartnersNameIsSent(t *testing.T) {
	t.Parallel()
	for given, want := range map[given]string{
		"": "", "5f7b2ed74a97": "5f7b2ed74a97", "demo": operate.Named("DEMO"), "5f7b2ed74a9": operate.Named("5f7b2ed74a9"),
		given(norm.NFD.String("하나 의원")): operate.Named("하나 의원"),
	} {
		if got := reference(given); got != want || want != string(given) && strings.Contains(got, string(given)) {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}

// A next step is that from the stage that the command has seen at first: if somebody else makes it meanwhile, the gateway
// is asked for the same step, which it refuses, and not for the one after that.
func TestNextAsksForTheStepThatItHasSeen(t *testing.T) {
	t.Parallel()
	percent := 25
	var asked []string
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			asked = append(asked, r.URL.Query().Get("stage")+":"+r.URL.Query().Get("percent"))
			http.Error(w, "Not changed: others were faster.", http.StatusConflict)
			return
		}
		one := operate.PartnerStatus{StageSetting: operate.StageSetting{Stage: routing.StageCanary, Percent: &percent}}
		one.Partner = r.URL.Query().Get("partner")
		must(t, json.NewEncoder(w).Encode(operate.Status{Bills: "separate", Partners: []operate.PartnerStatus{one}}))
	}))
	t.Cleanup(gateway.Close)
	file := filepath.Join(t.TempDir(), "partners.txt")
	proxytest.WriteFile(t, file, "6e2b0f4cd1aa\n5f7b2ed74a97\n")
	for _, which := range [][]string{{"--partner", "6e2b0f4cd1aa"}, {"--partner-file", file}} {
		args := append([]string{"rollout", "next", "--by", "anna", "--admin", gateway.URL}, which...)
		if code, _, errs := runCommand(t, false, args...); code != exitError || !strings.Contains(errs, "others were faster") {
			t.Errorf("exit code %d, %s", code, errs)
		}
	}
	proxytest.Equal(t, asked, []string{"canary:50", "canary:50", "canary:50"})
}

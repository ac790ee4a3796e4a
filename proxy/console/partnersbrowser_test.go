package console_test

import (
	"fmt"
	"testing"

	"billbridge/proxy/partner"

	"github.com/chromedp/chromedp"
)

// click follows the first link or button of main whose text is this one.
func (p *tab) click(text string) {
	p.t.Helper()
	p.do("the place of "+text, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void (document.querySelectorAll("[data-clicked]").forEach(e => e.removeAttribute("data-clicked")),
		[...document.querySelectorAll("main a, main button")].find(e => e.textContent === %q)?.setAttribute("data-clicked", ""))`, text)))
	p.follow("clicking "+text, chromedp.Click(chromedp.CSS("[data-clicked]")))
}

// has waits until the page has a text.
func (p *tab) has(text string) {
	p.t.Helper()
	p.wait("the text "+text, fmt.Sprintf(`document.querySelector("main").innerText.includes(%q)`, text))
}

// signIn signs in on the page that the console shows to visitors without a session.
func (p *tab) signIn(address, token string) {
	p.t.Helper()
	p.open(address)
	p.wait("the page for signing in", `location.pathname === "/sign-in"`)
	p.do("the token", chromedp.SendKeys(chromedp.CSS("input[name=token]"), token))
	p.follow("signing in", chromedp.Click(chromedp.CSS("main button")))
}

const consoleTokens = ", tokens: [{name: anna, token: of-anna, may: operate}, {name: wall, token: of-wall, may: read}]"

// A partner moves one stage without a reason against it, and one against a reason, which the visitor must confirm. The kill switch is turned
// on and off. The history has the name of the token.
func TestPartnersAreMovedInABrowser(t *testing.T) {
	t.Parallel()
	p, s := newTab(t), startSite(t, consoleTokens)
	p.use(looks[0])
	p.signIn(s.admin+"/partners?partner="+string(partner.Of(clinicKey)), "of-anna")
	p.wait("the page that was asked for", fmt.Sprintf(`location.pathname === "/partners/%s"`, partner.Of(clinicKey)))
	p.has("Nothing blocks it.")
	p.click("Next stage…")
	p.has("old → shadow")
	p.click("Move to this stage")
	p.has("The stage was changed.")
	p.click("Next stage…")
	p.has("shadow → canary 10 %")
	p.has("Reasons against it")
	p.picture("partner-next-blocked")
	p.do("confirming without the box", chromedp.Click(chromedp.CSS("main form button.danger")))
	if !run(p, chromedp.Evaluate[bool](`document.querySelector("input[name=force]").matches(":invalid") && location.pathname.endsWith("/next")`)) {
		t.Error("the change was sent without the confirmation")
	}
	for _, reason := range []string{"settling", "verdict"} {
		p.do("the box", chromedp.Click(chromedp.CSS("input[name=force][value="+reason+"]")))
	}
	p.click("Move to this stage")
	p.has("The stage was changed.")
	p.has("canary 10 %")
	p.has("forced")
	p.click("All partners")
	p.click("Kill switch…")
	p.has("New bills of all partners are created at the old backend")
	p.click("Stop now")
	p.has("The kill switch is on")
	p.click("End the kill switch…")
	p.click("Resume now")
	p.has("Resumed: the stages apply again.")
	p.open(s.admin + "/partners/" + string(partner.Of(clinicKey)))
	if got := run(p, chromedp.Evaluate[string](`[...document.querySelectorAll("#history ~ table tbody tr")].map(r => r.cells[1].innerText + " " + r.cells[4].innerText).join("; ")`)); got != "anna canary 10 % forced settling verdict; anna shadow" {
		t.Errorf("the history is %s", got)
	}
	p.quiet("partners")
}

package console_test

import (
	"fmt"
	"testing"

	"billbridge/proxy/proxytest/browser"

	"github.com/chromedp/chromedp"
)

// A visitor signs in with a token, sees the page that was asked for, and signs out. With a token that may only read no button changes
// anything.
func TestSigningInInABrowser(t *testing.T) {
	t.Parallel()
	p, s := browser.NewTab(t), startSite(t, ", tokens: [{name: anna, token: anna-token-0001, may: operate}, {name: wall, token: wall-token-0001, may: read}]")
	p.Use(browser.Looks[0])
	p.Open(s.admin + "/calls?outcome=ok")
	p.Picture("sign-in")
	p.Accessible("sign-in")
	const heading = `document.querySelector("h1")?.textContent === %q`
	token := chromedp.CSS("input[name=token]")
	p.Do("the token", chromedp.SendKeys(token, "wall-token-0001"))
	p.Follow("signing in", chromedp.Click(chromedp.CSS("main button")))
	p.Wait("the calls", fmt.Sprintf(heading, "Calls")+` && location.search === "?outcome=ok"`)
	p.Wait("the visitor", `document.querySelector(".visitor")?.innerText.startsWith("wall") && document.querySelector(".visitor")?.innerText.includes("read only")`)
	p.Wait("the page is live", `document.getElementById("pause") !== null`)
	p.Picture("signed-in")
	p.Accessible("signed in")
	p.Do("ending the session in another tab", chromedp.Evaluate[chromedp.Void](`void fetch("/sign-out", {method: "POST"})`))
	p.Wait("the page that has lost its session", fmt.Sprintf(heading, "Sign in"))
	p.Do("the token again", chromedp.SendKeys(token, "wall-token-0001"))
	p.Follow("signing in again", chromedp.Click(chromedp.CSS("main button")))
	p.Wait("the calls again", fmt.Sprintf(heading, "Calls"))
	p.Do("signing out", chromedp.Click(chromedp.CSS(".who button"))) // a refresh of the page can lead to the sign-in page first
	p.Wait("the sign-in page", fmt.Sprintf(heading, "Sign in"))
	p.Open(s.admin + "/calls")
	p.Wait("the session has ended", fmt.Sprintf(heading, "Sign in"))
	p.Quiet("signing in", "status of 401", "Status Error Code 401") // of refreshes
}

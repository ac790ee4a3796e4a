package console

import (
	"testing"

	"billbridge/proxy/pages"
	"billbridge/proxy/proxytest"
)

func TestEveryTextIsUsedAndInAllLanguages(t *testing.T) {
	t.Parallel()
	all, err := readTexts()
	if err != nil {
		t.Fatal(err)
	}
	proxytest.Texts(t, all.Texts, pages.Languages, ".", "../pages")
}

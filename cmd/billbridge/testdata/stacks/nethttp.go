// Posts each line "URL BODY" with net/http. Prints "STATUS REPLY", or "error" and its text.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func main() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		url, body, _ := strings.Cut(in.Text(), " ")
		said, err := post(url, body)
		if err != nil {
			said = "error " + err.Error()
		}
		fmt.Println(strings.ReplaceAll(said, "\n", " "))
	}
}

func post(url, body string) (string, error) {
	reply, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	defer func() { _ = reply.Body.Close() }()
	text, err := io.ReadAll(reply.Body)
	return fmt.Sprint(reply.StatusCode, " ", string(text)), err
}

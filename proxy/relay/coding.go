package relay

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"billbridge/proxy/httpconn"
	"billbridge/translate"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/korean"
)

// codingOf returns the content coding of a body, in lower case; "" if there is none. What is no known coding is ignored
// over a JSON document.
func codingOf(h http.Header, body []byte) (coding string, ignored bool) {
	coding = strings.ToLower(strings.Join(h[contentEncoding], ",")) // the header may have several lines
	switch {
	case coding == "" || coding == "identity":
		return "", false
	case !httpconn.HasCoding(coding) && translate.IsJSON(body):
		return "", true
	}
	return coding, false
}

// An answer is that of a partner to a callback.
type answer struct {
	body      []byte // as of readable
	encoding  string // as of readable
	undecoded string // in words, why the body cannot be decoded
	ignored   bool   // whether its content coding is none, and was ignored
}

// readAnswer reads a partner's answer, up to answerLimit. The gateway asks for no content coding, but some
// settings of PHP and of web servers compress all answers.
func readAnswer(res *http.Response) (a answer, err error) {
	sent, err := io.ReadAll(io.LimitReader(res.Body, answerLimit))
	if a.body, a.encoding = readable(sent); err != nil || len(sent) == 0 {
		return a, err
	}
	coding, ignored := codingOf(res.Header, a.body)
	if a.ignored = ignored; coding == "" {
		return a, nil
	}
	var body io.Reader
	compressed := bytes.NewReader(sent)
	switch coding {
	case "gzip", "x-gzip":
		body, err = gzip.NewReader(compressed)
	case "deflate":
		if body, err = zlib.NewReader(compressed); err != nil { // some servers leave out the header of zlib
			body, err = flate.NewReader(bytes.NewReader(sent)), nil
		}
	case "br", "zstd", "compress":
		return answer{undecoded: "it answers in " + coding + ", which is not decoded here"}, nil
	default:
		return answer{undecoded: "it answers in a coding that is not decoded here"}, nil
	}
	if err == nil {
		sent, err = io.ReadAll(io.LimitReader(body, answerLimit))
	}
	if err != nil {
		return answer{undecoded: "the body is not valid " + coding}, nil
	}
	a.body, a.encoding = readable(sent)
	return a, nil
}

// readable returns an answer without a byte order mark, which editors add, and in words its encoding if it is not
// UTF-8. The gateway alone reads it, and only its code. So of another encoding the text does not matter: each byte
// becomes a letter, as no letter of EUC-KR and CP949 has a byte that JSON uses. Two names never become one.
func readable(sent []byte) (body []byte, encoding string) {
	body = bytes.TrimPrefix(sent, []byte("\ufeff"))
	if len(body) > 1 && (body[0] == 0 || body[1] == 0) || bytes.HasPrefix(body, []byte("\xff\xfe")) ||
		bytes.HasPrefix(body, []byte("\xfe\xff")) {
		return body, "in UTF-16"
	}
	if utf8.Valid(body) {
		return body, ""
	}
	encoding = "not in UTF-8"
	if text, _ := korean.EUCKR.NewDecoder().Bytes(body); !bytes.ContainsRune(text, utf8.RuneError) {
		encoding = "in EUC-KR"
	}
	body, _ = charmap.ISO8859_1.NewDecoder().Bytes(body) // never fails
	return body, encoding
}

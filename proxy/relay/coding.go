package relay

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"
)

// readAnswer reads a partner's answer, up to answerLimit. The gateway asks for no content coding, but some
// settings of PHP and of web servers compress all answers. undecoded says in words why an answer cannot be decoded.
func readAnswer(res *http.Response) (answer []byte, undecoded string, err error) {
	sent, err := io.ReadAll(io.LimitReader(res.Body, answerLimit))
	coding := strings.ToLower(strings.Join(res.Header["Content-Encoding"], ","))
	if err != nil || len(sent) == 0 || coding == "" || coding == "identity" {
		return sent, "", err
	}
	var body io.Reader
	switch coding {
	case "gzip", "x-gzip":
		body, err = gzip.NewReader(bytes.NewReader(sent))
	case "deflate":
		if body, err = zlib.NewReader(bytes.NewReader(sent)); err != nil { // some servers leave out the header of zlib
			body, err = flate.NewReader(bytes.NewReader(sent)), nil
		}
	case "br", "zstd", "compress":
		return nil, "it answers in " + coding + ", which is not decoded here", nil
	default:
		return nil, "it answers in a coding that is not decoded here", nil
	}
	if err == nil {
		answer, err = io.ReadAll(io.LimitReader(body, answerLimit))
	}
	if err != nil {
		return nil, "the body is not valid " + coding, nil
	}
	return answer, "", nil
}

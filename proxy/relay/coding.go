package relay

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"
)

// A codingError is why an answer cannot be decoded, in words.
type codingError string

func (e codingError) Error() string { return string(e) }

// readAnswer reads a partner's answer, up to answerLimit. Nobody asks partners for a content coding, but the settings of
// PHP and of web servers compress all answers.
func readAnswer(res *http.Response) ([]byte, error) {
	received := bufio.NewReader(io.LimitReader(res.Body, answerLimit))
	body, err := io.Reader(received), error(nil)
	first, broken := received.Peek(2)
	coding := strings.ToLower(strings.Join(res.Header["Content-Encoding"], ","))
	switch {
	case coding == "", coding == "identity", len(first) == 0:
	case broken != nil:
		return nil, broken
	case coding == "gzip", coding == "x-gzip":
		body, err = gzip.NewReader(received)
	case coding == "deflate" && first[0]&0xf == 8 && (int(first[0])<<8+int(first[1]))%31 == 0:
		body, err = zlib.NewReader(received)
	case coding == "deflate": // some servers leave out the header of zlib
		body = flate.NewReader(received)
	case coding == "br", coding == "zstd", coding == "compress":
		return nil, codingError("it answers in " + coding + ", which is not decoded here")
	default:
		return nil, codingError("it answers in a coding that is not decoded here")
	}
	var answer []byte
	if err == nil {
		answer, err = io.ReadAll(io.LimitReader(body, answerLimit))
	}
	_, corrupt := err.(flate.CorruptInputError)
	switch err {
	case gzip.ErrHeader, gzip.ErrChecksum, zlib.ErrHeader, zlib.ErrChecksum, zlib.ErrDictionary:
		corrupt = true
	}
	if corrupt {
		err = codingError("the body is not valid " + coding)
	}
	return answer, err
}

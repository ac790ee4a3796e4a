package main

import (
	"bytes"
	"embed"
	"fmt"
	"strings"
	"text/template"
	"time"
)

//go:embed guide
var guideFiles embed.FS

// page returns the page in a language, as Markdown.
func (g *guide) page(language string) ([]byte, error) {
	texts, err := template.New("").Funcs(template.FuncMap{
		"time": func(d fmt.Stringer) string { return guideTime(language, d) },
		"codes": func(codes []string) string {
			if len(codes) == 0 {
				return "–"
			}
			return "`" + strings.Join(codes, "`, `") + "`"
		},
		"plain": plainMarkdown.Replace,
	}).ParseFS(guideFiles, "guide/"+language+".tmpl")
	if err != nil {
		return nil, err
	}
	var markdown bytes.Buffer
	err = texts.ExecuteTemplate(&markdown, language+".tmpl", g)
	return markdown.Bytes(), err
}

// plainMarkdown escapes what Markdown and HTML would not show as text.
var plainMarkdown = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "<", `\<`, "&", `\&`, "|", `\|`,
)

// guideTime returns a duration for people.
func guideTime(language string, duration fmt.Stringer) string {
	units := map[string][3]string{"en": {" s", " min", " h"}, "ko": {"초", "분", "시간"}}[language]
	switch d, _ := time.ParseDuration(duration.String()); {
	case d < 2*time.Minute:
		return fmt.Sprint(d.Seconds(), units[0])
	case d < 2*time.Hour:
		return fmt.Sprint(d.Minutes(), units[1])
	default:
		return fmt.Sprint(d.Round(time.Hour).Hours(), units[2])
	}
}

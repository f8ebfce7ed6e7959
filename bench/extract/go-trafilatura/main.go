// Reads pages as lines of JSON ({"html", "url"}) and writes one line for each: title, text and CPU time of go-trafilatura.
package main

import (
	"bufio"
	"encoding/json"
	"net/url"
	"os"
	"strings"
	"syscall"

	trafilatura "github.com/markusmobius/go-trafilatura"
)

type page struct {
	HTML string `json:"html"`
	URL  string `json:"url"`
}

type answer struct {
	Title   string  `json:"title"`
	Content string  `json:"content"`
	CPUMs   float64 `json:"cpuMs"`
}

func cpuMs() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e6
}

func main() {
	input := bufio.NewReaderSize(os.Stdin, 1<<20)
	output := json.NewEncoder(os.Stdout)
	for {
		line, err := input.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			return
		}
		var read page
		if err := json.Unmarshal(line, &read); err != nil {
			panic(err)
		}
		base, _ := url.Parse(read.URL)
		start := cpuMs()
		result, err := trafilatura.Extract(strings.NewReader(read.HTML), trafilatura.Options{
			OriginalURL:    base,
			EnableFallback: true,
		})
		found := answer{CPUMs: cpuMs() - start}
		if err == nil && result != nil {
			found.Title, found.Content = result.Metadata.Title, result.ContentText
		}
		if err := output.Encode(found); err != nil {
			panic(err)
		}
	}
}

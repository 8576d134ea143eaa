// Reads texts (a JSON array on standard input) as kubectl reads a file with -f, and writes what each holds.
package main

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

type reading struct {
	Text      string   `json:"text"`
	Documents []string `json:"documents"`
	Error     string   `json:"error,omitempty"`
}

func read(text string) reading {
	found := reading{Text: text, Documents: []string{}}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		document := runtime.RawExtension{}
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			found.Error = err.Error()
			return found
		}
		if raw := strings.TrimSpace(string(document.Raw)); raw != "" && raw != "null" {
			found.Documents = append(found.Documents, raw)
		}
	}
}

func main() {
	var texts []string
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		log.Fatal(err)
	}
	readings := []reading{}
	for _, text := range texts {
		readings = append(readings, read(text))
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(readings); err != nil {
		log.Fatal(err)
	}
}

// Renders, lints and validates the Helm chart with the packages of Helm and kubeconform, without their command lines.
//
//	helm-tool render CHART [-n NAMESPACE] [-k VERSION] [-f FILE]...   prints the manifests; the notes with -notes
//	helm-tool lint CHART [-f FILE]...                                 prints findings; exit code 1 for errors
//	helm-tool validate -s FOLDER -k VERSION FILE...                   validates manifests, strictly; "-" is the standard input
//	helm-tool crds FOLDER FILE...                                     writes the JSON Schemas of custom resource definitions
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/yannh/kubeconform/pkg/validator"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"
)

type list []string

func (l *list) String() string         { return strings.Join(*l, ",") }
func (l *list) Set(value string) error { *l = append(*l, value); return nil }

func main() {
	if len(os.Args) < 3 {
		fail(fmt.Errorf("usage: helm-tool render|lint|validate|crds ..."))
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	var files list
	flags.Var(&files, "f", "values file")
	namespace := flags.String("n", "default", "namespace")
	version := flags.String("k", "1.33.0", "version of Kubernetes")
	schemas := flags.String("s", "", "folder of schemas")
	notes := flags.Bool("notes", false, "print the notes")
	args := os.Args[2:]
	first := ""
	if os.Args[1] != "validate" {
		first, args = args[0], args[1:]
	}
	fail(flags.Parse(args))
	switch os.Args[1] {
	case "render":
		fail(render(first, files, *namespace, *version, *notes))
	case "lint":
		fail(lintChart(first, files, *namespace))
	case "validate":
		fail(validate(*schemas, *version, flags.Args()))
	case "crds":
		fail(writeSchemas(first, flags.Args()))
	default:
		fail(fmt.Errorf("unknown command %s", os.Args[1]))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Later files win, as with `helm template`.
func valuesOf(files []string) (map[string]interface{}, error) {
	values := map[string]interface{}{}
	for _, file := range files {
		more, err := chartutil.ReadValuesFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		values = chartutil.MergeTables(more.AsMap(), values)
	}
	return values, nil
}

func render(path string, files []string, namespace, version string, notes bool) error {
	chart, err := loader.Load(path)
	if err != nil {
		return err
	}
	values, err := valuesOf(files)
	if err != nil {
		return err
	}
	kube, err := chartutil.ParseKubeVersion(version)
	if err != nil {
		return err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *kube
	if !chartutil.IsCompatibleRange(chart.Metadata.KubeVersion, kube.String()) {
		return fmt.Errorf("the chart needs Kubernetes %s", chart.Metadata.KubeVersion)
	}
	options := chartutil.ReleaseOptions{Name: "headrace", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, options, capabilities)
	if err != nil {
		return err
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		return err
	}
	names := []string{}
	for name := range rendered {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		text := strings.TrimSpace(rendered[name])
		if text == "" || strings.HasPrefix(filepath.Base(name), "_") || strings.HasSuffix(name, "NOTES.txt") != notes {
			continue
		}
		if notes {
			fmt.Println(text)
		} else {
			fmt.Printf("---\n# Source: %s\n%s\n", name, strings.TrimPrefix(text, "---\n"))
		}
	}
	return nil
}

func lintChart(path string, files []string, namespace string) error {
	values, err := valuesOf(files)
	if err != nil {
		return err
	}
	result := lint.All(path, values, namespace, true)
	for _, message := range result.Messages {
		if message.Severity >= support.WarningSev {
			fmt.Println(message.Error())
		}
	}
	if result.HighestSeverity >= support.ErrorSev {
		return fmt.Errorf("the chart has errors")
	}
	return nil
}

func validate(folder, version string, files []string) error {
	// The first location has the schemas of Kubernetes, the second those that "crds" wrote.
	locations := []string{
		folder + "/kubernetes/v" + version + "-local-strict/{{ .ResourceKind }}{{ .KindSuffix }}.json",
		folder + "/crds/{{ .Group }}/{{ .ResourceKind }}_{{ .ResourceAPIVersion }}.json",
	}
	checker, err := validator.New(locations, validator.Opts{Strict: true, KubernetesVersion: version})
	if err != nil {
		return err
	}
	bad, count := 0, 0
	for _, file := range files {
		var input io.ReadCloser = os.Stdin
		if file != "-" {
			if input, err = os.Open(file); err != nil {
				return err
			}
		}
		for _, result := range checker.Validate(file, input) {
			if result.Status == validator.Empty {
				continue
			}
			count++
			if result.Status != validator.Valid {
				bad++
				name := "resource"
				if signature, err := result.Resource.Signature(); err == nil {
					name = signature.Kind + " " + signature.Name
				}
				fmt.Printf("%s: %s: %v\n", file, name, result.Err)
			}
		}
	}
	fmt.Printf("%d resources, %d invalid, Kubernetes %s\n", count, bad, version)
	if bad > 0 || count == 0 {
		return fmt.Errorf("not valid")
	}
	return nil
}

type definition struct {
	Kind string `json:"kind"`
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Kind string `json:"kind"`
		} `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Schema struct {
				Schema map[string]interface{} `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

func writeSchemas(folder string, files []string) error {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, document := range bytes.Split(text, []byte("\n---")) {
			var crd definition
			if err := yaml.Unmarshal(document, &crd); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if crd.Kind != "CustomResourceDefinition" {
				continue
			}
			for _, version := range crd.Spec.Versions {
				strict(version.Schema.Schema)
				schema, err := json.Marshal(version.Schema.Schema)
				if err != nil {
					return err
				}
				name := fmt.Sprintf("%s_%s.json", strings.ToLower(crd.Spec.Names.Kind), version.Name)
				path := filepath.Join(folder, crd.Spec.Group, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					return err
				}
				if err := os.WriteFile(path, schema, 0o644); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// An API server drops fields that a schema does not have: here they are mistakes. Ports may be names.
func strict(node map[string]interface{}) {
	if node["x-kubernetes-int-or-string"] == true {
		delete(node, "type")
	}
	properties, _ := node["properties"].(map[string]interface{})
	_, open := node["additionalProperties"]
	if properties != nil && !open && node["x-kubernetes-preserve-unknown-fields"] != true {
		node["additionalProperties"] = false
	}
	for _, child := range properties {
		if schema, ok := child.(map[string]interface{}); ok {
			strict(schema)
		}
	}
	for _, name := range []string{"items", "additionalProperties"} {
		if schema, ok := node[name].(map[string]interface{}); ok {
			strict(schema)
		}
	}
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	generator "github.com/fluxcd/pkg/kustomize"
	securefs "github.com/fluxcd/pkg/kustomize/filesys"
	ssautil "github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	kustypes "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// render returns what kustomize-controller would apply for one Kustomization, in the order of its apply, and the files
// that it comes from. Nothing is decrypted.
func render(artifact *artifact, item toRender) (objects []*unstructured.Unstructured, files []string, err error) {
	// kustomize panics on some invalid objects; Flux catches it as well.
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("recovered from kustomize build panic: %v", panicked)
		}
	}()
	kustomization, err := parseKustomization(item.Resource)
	if err != nil {
		return nil, nil, err
	}
	// Names the culprit if the process exceeds its limits.
	fmt.Fprintf(os.Stderr, "rendering %s/%s\n", kustomization.Namespace, kustomization.Name)
	source := newView(artifact)
	built, err := build(source, kustomization)
	if source.refused != nil {
		return nil, nil, source.refused
	}
	if err != nil {
		return nil, nil, err
	}
	if err := substitute(built, kustomization, item.Variables); err != nil {
		return nil, nil, err
	}
	resources, err := built.AsYaml()
	if err != nil {
		return nil, nil, fmt.Errorf("kustomize build failed: %w", err)
	}
	objects, err = ssautil.ReadObjects(bytes.NewReader(resources))
	if err != nil {
		return nil, nil, err
	}
	if err := finish(objects, kustomization); err != nil {
		return nil, nil, err
	}
	return inOrderOfApply(objects), source.filesRead(), nil
}

// build runs kustomize on the directory of the Kustomization, whose kustomization file is generated, or extended by the
// fields of its spec. That file is kept in memory, so the next build finds the source as it was.
func build(source *view, kustomization *kustomizev1.Kustomization) (resmap.ResMap, error) {
	// As Flux joins it: never above the root.
	dir := path.Join(mount, path.Clean("/"+kustomization.Spec.Path))
	if !source.Exists(dir) {
		name, _ := toName(dir)
		return nil, fmt.Errorf("kustomization path not found: %w", source.artifact.missing("stat", name))
	}
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(kustomization)
	if err != nil {
		return nil, err
	}
	manifest, file, err := generate(source, unstructured.Unstructured{Object: spec}, dir)
	if err != nil {
		return nil, err
	}
	files := securefs.MakeFsInMemory(source)
	if err := files.WriteFile(file, manifest); err != nil {
		return nil, err
	}
	built, err := runKustomize(files, dir, manifest)
	if err != nil {
		return nil, fmt.Errorf("kustomize build failed: %w", err)
	}
	for _, resource := range built.Resources() {
		if resource.GetName() == "" || resource.GetKind() == "" || resource.GetApiVersion() == "" {
			return nil, fmt.Errorf("failed to decode Kubernetes apiVersion, kind and name from: %v", resource.String())
		}
	}
	return built, nil
}

// runKustomize builds with the options of Flux. Flux's own function parses kustomize's schema of Kubernetes before and after
// each build, which takes 0.1 s, in case a build replaces it. Only the field `openapi` of the outermost kustomization file
// can; all other builds share what was parsed once.
func runKustomize(files filesys.FileSystem, dir string, manifest []byte) (resmap.ResMap, error) {
	var outermost kustypes.Kustomization
	if err := yaml.Unmarshal(manifest, &outermost); err != nil {
		return nil, err
	}
	if len(outermost.OpenAPI) > 0 {
		return generator.Build(files, dir)
	}
	return krusty.MakeKustomizer(&krusty.Options{
		LoadRestrictions: kustypes.LoadRestrictionsNone,
		PluginConfig:     kustypes.DisabledPluginConfig(),
	}).Run(files, dir)
}

// substitute replaces variables in the text of each object, if the Kustomization has postBuild. Unknown variables are
// errors, as they are by default since kustomize-controller 1.9.
func substitute(built resmap.ResMap, kustomization *kustomizev1.Kustomization, variables map[string]string) error {
	if kustomization.Spec.PostBuild == nil {
		return nil
	}
	// Flux reads the variables from the cluster; here they are part of the request, as if they were written inline.
	withVariables := kustomization.DeepCopy()
	inline := map[string]string{}
	maps.Copy(inline, variables)
	maps.Copy(inline, kustomization.Spec.PostBuild.Substitute)
	withVariables.Spec.PostBuild.Substitute = inline
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(withVariables)
	if err != nil {
		return err
	}
	always := kustomization.GetSubstituteStrategy() == kustomizev1.SubstituteStrategyAlways
	for _, resource := range built.Resources() {
		changed, err := generator.SubstituteVariables(context.Background(), nil, unstructured.Unstructured{Object: spec}, resource,
			generator.SubstituteWithDryRun(true), // does not read the cluster
			generator.SubstituteWithStrict(true),
			generator.SubstituteWithAlways(always))
		if err != nil {
			return fmt.Errorf("post build failed for '%s/%s': %w", resource.GetGvk(), resource.GetName(), err)
		}
		if changed == nil {
			continue
		}
		if _, err := built.Replace(resource); err != nil {
			return err
		}
	}
	return nil
}

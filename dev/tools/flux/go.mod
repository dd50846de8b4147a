module towline.invalid/dev/tools/flux

go 1.26.0

require github.com/fluxcd/flux2/v2 v2.9.5

replace gopkg.in/yaml.v3 => gopkg.in/yaml.v3 v3.0.1

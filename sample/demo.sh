#!/usr/bin/env bash
# The demo: a throw-away knowledge base under $2, from the sample beside this file. `make demo` calls it.
#   $1  the kb command    $2  folder of the demo; emptied first
set -euo pipefail

kb=$1
folder=$2
sample=$(cd "$(dirname "$0")" && pwd)

# A demo must never touch a real store: no setting of the caller's counts, neither from the environment nor from a kb.toml.
for name in "${!KB_@}"; do unset "$name"; done
export KB_DATA_DIR="$folder/data" XDG_CONFIG_HOME="$folder/config"

if [ -d "$KB_DATA_DIR" ]; then "$kb" store stop >/dev/null 2>&1 || true; fi
rm -rf "$folder"
mkdir -p "$folder/config"
cd "$folder"

step() { printf '\n\033[1m%s\033[0m\n' "$1"; }
step "1. Ingest the sample: documents of an invented product, in English and Chinese"
echo "\$ kb ingest sample --source-name sample"
"$kb" ingest "$sample" --source-name sample

step "2. An agent writes down what it believes; nobody has checked it, so it is quarantined"
"$kb" memory add "The Team plan of Halden Relay costs 19 euros a month in Q3 2026." --by agent --title "Price of the Team plan"

step "3. Ask in English: the right page is found; the agent's note and an unconfirmed rumour match, but are held back"
echo '$ kb search "How much does the Team plan cost a month in Q3 2026?" -k 3'
"$kb" search "How much does the Team plan cost a month in Q3 2026?" -k 3

step "4. Ask in Chinese (disk full: what must one never do?)"
echo '$ kb search "磁盘空间不足时绝不要做什么？" -k 3'
"$kb" search "磁盘空间不足时绝不要做什么？" -k 3

step "5. The same question in 60 days, if nobody renews the sources: what nobody vouched for has faded"
echo '$ kb search "How much does the Team plan cost a month in Q3 2026?" -k 3 --at +60d'
"$kb" search "How much does the Team plan cost a month in Q3 2026?" -k 3 --at +60d

step "6. What is stored, and what leaves the gate when"
"$kb" status

step "Go on"
cat <<EOF
  export KB_DATA_DIR=$KB_DATA_DIR PATH=$(dirname "$kb"):\$PATH
  kb search "…"                 ask something else
  kb ingest $sample --source-name sample      run it again: nothing is embedded twice
  kb memory list                what is stored
Your own documents: unset KB_DATA_DIR, then \`kb init\` and \`kb ingest ./docs\`. The tutorial is docs/tutorial.md.
EOF

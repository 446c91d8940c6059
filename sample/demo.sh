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
say() { printf '$ kb %s\n' "$1"; }
price="How much does the Team plan cost a month in Q3 2026?"

step "1. Ingest the sample: documents of an invented product, in English and Chinese"
say "ingest sample --source-name sample"
"$kb" ingest "$sample" --source-name sample

step "2. An agent writes down what it believes; nobody has checked it, so it is quarantined"
"$kb" memory add "The Team plan of Halden Relay costs 19 euros a month in Q3 2026." --by agent --title "Price of the Team plan"

step "3. Ask in English: answered from the right page, with a citation; the agent's note and a rumour match, but are held back"
say "ask \"$price\""
"$kb" ask "$price" | tee answer.txt

step "4. Ask in Chinese (how long are access logs kept?)"
say 'ask "访问日志保留多久？"'
"$kb" ask "访问日志保留多久？"

step "5. Ask what nobody wrote down, and get an honest refusal"
say 'ask "Who is the chief executive of Halden Relay?"'
"$kb" ask "Who is the chief executive of Halden Relay?"

step "6. How the first answer came about: path, grades, what was held back"
answer=$(sed -n 's/.*kb trace //p' answer.txt)
say "trace $answer"
"$kb" trace "$answer"

step "7. The same question in 60 days, if nobody renews the sources: what nobody vouched for has faded"
say "search \"$price\" -k 3 --at +60d"
"$kb" search "$price" -k 3 --at +60d

step "8. Whether the governance policy is safe, and what it would do in the next 60 days"
say "govern policy check"
"$kb" govern policy check
say "govern forecast --days 60"
"$kb" govern forecast --days 60

step "9. What is stored, and what leaves the gate when"
"$kb" status

step "Go on"
cat <<EOF
  export KB_DATA_DIR=$KB_DATA_DIR PATH=$(dirname "$kb"):\$PATH
  kb ask "…"                    ask something else
  kb feedback $answer --good
                                say that the first answer was right: what it cited gains confidence
  kb ingest $sample --source-name sample      run it again: nothing is embedded twice
  kb memory list                what is stored
Your own documents: unset KB_DATA_DIR, then \`kb init\` and \`kb ingest ./docs\`. The tutorial is docs/tutorial.md.
EOF

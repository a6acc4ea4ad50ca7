/** Other words for what skills and tools of many kinds do and work on. */
export const synonyms = `
purge: delete clean remove old expire
prune: clean delete remove old trim
condense: summarise shorten compress reduce brief
abridge: summarise shorten
paraphrase: rewrite rephrase reword
proofreading: spelling grammar correct check
vocalise: speak speech aloud tts
subtitle_track: captions srt
mute: silence quiet volume
amplify: loud volume louder
equalise: normalise level balance
splice: join cut concatenate video
footage: video clip movie
still: frame image screenshot
capture: screenshot record snapshot
silhouette: background cutout person
caption: subtitle title label
sharpen: enhance improve image quality
brighten: light image enhance
monochrome: grayscale black_and_white colour
tint: colour filter
palette: colours theme
emblem: logo watermark brand
scribble: handwriting note
typed: text printed written
tabulate: table rows summarise
crosstab: pivot table
deduplicate: duplicate unique distinct
impute: fill missing
interpolate: fill missing values smooth
normalise: normalize scale standard
discretise: bin group
aggregate: sum group total pivot
lookup_table: join map
denormalise: flatten join
flatten: flat csv unnest nested
serialise: serialize export save json
deserialise: parse load json
ingest: import load read data
anonymisation: redact privacy remove personal
pseudonymise: redact anonymise names
gauge: measure estimate
tempo_of: bpm beats
cadence: rhythm tempo
key_phrases: keywords terms topics
abstract_of: summary paper
sarcasm: sentiment tone
polarity: sentiment positive negative
satisfaction: sentiment survey rating happy
dialect: language accent
idiom: phrase language translate
mother_tongue: language
bilingual: translate language
glossary: dictionary terms definitions
antonym: opposite synonym word
rhyme: word poem sound
acronym: abbreviation definition meaning
jargon: readability terms plain
plain_words: explain simple readability
layman: explain simple plain
walkthrough: explain steps guide
tutorial: guide explain learn
cheat_sheet: summary notes flashcards
study_aid: flashcards quiz learn
lecture: notes slides presentation lesson
homework: task school solve
grade: score marks rate
essay: text article writing
cover_letter: letter resume job application
payslip: payroll salary wage
paycheck: payroll salary net
overtime: hours payroll
leave_days: holidays vacation
sick_note: document health
onboarding: employee new start
org_chart: diagram company people
stakeholder: people project participants
kickoff: meeting project start
standup: meeting daily team
retrospective: meeting review
deadline_for: due date task
milestone: gantt deadline project
backlog: tasks issues list
sprint: tasks project schedule
kanban: tasks board
burndown: chart project
estimate_effort: hours time task
quote_for: price offer invoice
proposal: offer document suggest
purchase_order: order buy invoice
refund: return money payment
chargeback: payment refund dispute
ledger: accounts bookkeeping entries
balance_sheet: accounts finance assets
cash_flow: money income expenses
profit_and_loss: income expenses report
dividend: stock share income
yield: return interest investment
volatility: risk fluctuation price
hedge: risk investment
broker: trading stock agent
ticker_symbol: stock share
forex: currency exchange
remittance: transfer money bank
standing_order: payment monthly bank
direct_debit: payment bank bill
credit_card: card payment bank
instalment_plan: loan payment monthly
down_payment: mortgage house loan
refinance: loan mortgage
pension: retirement savings
insurance: risk policy cover
premium: insurance price
levy: tax fee
customs: tax border import
tariff: price tax
rebate: discount refund
coupon: discount voucher offer
haggle: price negotiate
wishlist: gifts products buy
basket: shopping cart products
checkout: payment shop
storefront: shop website
sku: product inventory item
stocktake: inventory count
backorder: inventory order
supplier: vendor goods order
dispatch: send shipment deliver
freight: shipment cargo delivery
customs_form: shipping border
doorstep: delivery address
eta: arrival time delivery
itinerary_for: trip plan route
layover: flight stop
round_trip: flight return latency
boarding_pass: flight ticket
legroom: flight seat
check_in: hotel flight arrive
suite: room hotel
sleepover: stay night hotel
campsite: stay tent nearby
landmark: sight place tourist
scenic: route view
shortcut: path short route
detour: route way
traffic_jam: traffic road route
commute: route travel work
parking: car nearby place
charging_station: car nearby electric
bike_lane: bicycle route
footpath: walk route
sea_level: elevation height
summit: mountain elevation
contour: elevation map
satellite: map gps position
pinpoint: locate coordinates exact
whereabouts: location where position
postcode: address code
zip_code: address postcode
region: area country place
border: country edge frontier
consulate: visa country
vaccination: health travel vaccine
jet_lag: timezone flight
daylight_saving: timezone clock time
leap_year: date year calendar
fortnight: weeks two date
decade: years ten
century: years hundred
era: period time history
anniversary_of: date years birthday
countdown: days until timer
stopwatch: timer time measure
snooze: alarm reminder
nap: sleep rest
bedtime: sleep night
calorie: energy food nutrition
carbs: nutrition food diet
vitamins: nutrition health
allergy: food health ingredient
gluten: diet ingredient food
portion: serving amount food
oven: cook bake recipe
marinade: recipe cook
leftover: food remaining recipe
pantry: ingredients food kitchen
grocery: food shopping
feast: meal dinner party
jog: run exercise
stretch: exercise workout
muscle: strength workout
heartbeat: pulse health heart
blood_pressure: health measure
dosage: pills medication amount
capsule: pill medicine
prescription: medicine doctor
symptom: illness health
waistline: weight body bmi
slim: weight diet bmi
gym: workout training
personal_trainer: workout plan
soil: plant garden
sprout: plant grow
houseplant: plant indoor water
prune_tree: plant garden
gardener: plant garden
breeze: wind weather
drizzle: rain weather
heatwave: hot temperature weather
frost: cold weather
barometer: pressure weather sensor
humid: humidity weather
thunderstorm: storm weather
aurora: sky night
eclipse: sun moon
comet: star sky
galaxy: star sky astronomy
orbit: planet satellite
tremors: earthquake
aftershock: earthquake
richter: earthquake magnitude
volcano: earthquake disaster
isotope: element atom
alloy: metal element
valence: element chemistry
reagent: chemical reaction
solvent: chemical solution
catalyst: reaction chemical
chromosome: dna gene
mutation: dna gene change
enzyme: protein
codon: dna amino_acid
nucleotide: dna sequence
theorem: math proof
proof: math verify
summation: sum math
quotient: divide number
remainder: divide number
multiples: number factor
fraction: number divide ratio
percentile: statistics distribution latency
quartile: boxplot statistics
median_of: statistics middle
standard_deviation: statistics spread
null_hypothesis: test significance
p_value: significance test
control_group: experiment test
regress: regression fit
extrapolate: forecast predict
seasonality: time_series forecast
moving_window: moving_average smooth
low_pass: filter smooth signal
resonance: frequency signal
decibel: volume loud sound
oscillation: wave signal frequency
vertex: node graph
spanning_tree: graph network
bottleneck_in: slow performance
hotspot: slow profile
flame_graph: profile slow
stack_trace: error debug
segfault: crash error
memory_leak: memory heap
garbage_collection: memory
race_condition: bug thread
deadlock: hang stuck bug
flaky: test unreliable
regression_test: test
smoke_test: test check
fixture: test data fake
seed_data: fake database test
stubbed: mock fake
sandboxed: isolated container
endpoint_url: api url
rate_limit: api requests limit
pagination: page api list
payload_of: body json data
handshake: tls connection
cipher_suite: tls encrypt
nonce: random unique
salted: hash password
keypair: ssh_key key generate
public_key: key ssh certificate
fingerprint_of: checksum hash
tampered: changed integrity checksum
corrupt: damaged broken checksum
authenticity: signature verify genuine
impersonate: fake identity
phishing: email fraud security
malware: virus security
ransomware: security encrypt
intrusion: attack security
brute_force: attack password
zero_day: vulnerability
patch_level: update version security
hotfix: patch fix deploy
canary: deploy release
blue_green: deploy release
rollout_of: deploy release version
downgrade: rollback previous version
changelog_for: release notes
semver: version release
monorepo: repository code
submodule: git repository
cherry_pick: git commit
rebase: git branch
stash: git save
squash_commits: git merge
fork_of: copy repository
upstream: git repository
codeowner: author owner
linting: lint style code
prettify: format code
boilerplate: template code
scaffold: create template project
transpile: convert code
refactor: change code improve
decompile: code convert
obfuscate: hide code
minify: compress code
bundle_size: size code
tree_shake: unused code
deprecated: outdated old unused
legacy: old code
spaghetti: complexity code
nested_loops: complexity code
big_o: complexity performance
throughput_of: performance requests
saturation: load capacity
autoscale: scale replicas
replica_count: scale replicas
failover: backup server
heartbeat_check: monitor uptime
health_check: monitor status
liveness: status health pods
restart_loop: pods crash
evicted: pods kubernetes
namespace: kubernetes group
helm_chart: kubernetes deploy
orchestrate: kubernetes containers
provision: create infrastructure server
teardown: delete infrastructure
drift: infrastructure difference change
cloud_bill: cost aws
spend: cost money budget
object_store: s3 bucket
blob: file bytes s3
presigned: url s3
tunnel: ssh network
remote_shell: ssh command
cron_job: schedule job
daemon: service process
zombie: process dead
runaway: process cpu
thrashing: memory disk
inode: disk file
mount_point: disk path
quota: limit disk space
low_on_space: disk full
partition: disk split
syslog: log system
access_logs: log nginx visitors
error_rate: errors log
log_line: log
stdout: output log print
verbose: log output
telemetry: metrics monitor
alerting: notify monitor
pager: notify alert
on_call: alert schedule
incident: problem outage alert
postmortem: report incident
status_page: uptime status
outage_of: down offline
packet: network
hop: network route
latency_of: ping slow
jitter_of: ping noise
open_ports: port scan
listening_services: port open
subnet: network ip
gateway: network server
nameserver: dns
mail_server: mx dns email
registrar: whois domain
expiring: expire certificate end
tls_cert: certificate https
web_crawler: crawl site links
dead_link: broken link
redirect: url link
anchor: link html
outbound: links external
backlink: link site
site_structure: sitemap pages
landing: page website
hero_image: picture page
above_the_fold: page screenshot
web_page_picture: screenshot
pdf_version: docx convert
page_range: split pages
stapled: merge pdf documents
paperless: scan pdf document
rubber_stamp: sign watermark
initials: sign signature
countersign: sign contract
fine_print: contract clause
loophole: contract risk
breach_of: contract leak
indemnity: contract clause
tenancy: lease contract rent
landlord: lease contract rent
trademark: brand legal
patent: legal invention
plagiarism: similarity text copy
near_duplicate: similar duplicate
lookalike: similar image
fuzzy_match: similar match
nearest_match: vector similar
k_nearest: vector neighbours
dense_vectors: embedding vectors
cosine: similarity vector
token_count: tokens prompt
context_size: tokens prompt
prompt_variants: prompts compare evaluate
hallucination: llm wrong
chatbot: llm chat
few_shot: prompt examples
fine_tune: train model
overfitting: model cross_validate
generalise: model cross_validate
misclassified: confusion classifier
false_positive: confusion classifier
ground_truth: actual label true
black_box: model explain importance
shap: importance feature model
grid_search: tune hyperparameters
learning_curve: model train chart
epoch: train model
customers_who_bought: recommend similar
upsell: recommend customer buy
cross_sell: recommend customer buy
loyal: customer churn
at_risk: churn risk
qualified_leads: leads score
cold_call: sales phone lead
follow_up: reminder email sales
win_rate: sales deal
pipeline_stage: crm deal
account_manager: crm customer sales
net_promoter: survey score
feedback_form: survey
multiple_choice: quiz survey
open_question: survey quiz
riddle: puzzle quiz
brain_teaser: puzzle
checkmate: chess
endgame: chess
opening_move: chess
scrabble: words letters crossword
anagram: letters word
hangman: letters word
coin_flip: random dice
raffle: random choose
lottery: random numbers
bedtime_story: story text
fairy_tale: story text
lullaby: song music
karaoke: song lyrics
setlist: songs music
playlist: songs music
cover_art: image album
director_of: movie
sequel: movie book
box_office: movie money
screenplay: movie text
bestseller: book
library_book: book isbn
biography: encyclopedia person book
trivia: quiz facts encyclopedia
`;

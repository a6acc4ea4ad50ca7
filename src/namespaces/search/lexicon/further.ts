/** Synonyms of common words, close together, whatever they are about. */
export const further = `
uncompress: decompress unpack extract unzip inflate expand
restrict: limit protect lock access password forbid deny
reunite: reassemble join rejoin put_together combine
assemble: combine arrange build put_together compose composite
composite: collage montage combination arrangement
replicate: copy duplicate mirror sync clone reproduce
enrich: join augment merge combine extend
stored: saved kept file
twice: double duplicate repeated again two_copies
once: unique distinct single duplicate
middle: centre center crop part
specs: specification system hardware info properties
stuff: things files data items
hog: hogs occupy largest biggest eat space consume consumes
attach: attachment compress send add
soundtrack: audio sound_track music score
rip: extract audio copy
follower: followers twitter social audience fans subscribers
subscriber: customer member reader client
coworker: coworkers colleague team staff
maintainer: maintainers developer owner author
developer: programmer author coder engineer contributor
contribution: lines share author commits
malfunction: bug defect fault error breakdown
vibration: vibrations frequency signal oscillation wave
exponential: curve function growth model
axis: axes rows columns dimension
surface: area integral space
below: under beneath
divisor: factor prime divide
undo: invert reverse inverse revert
transformation: matrix conversion change
ordinary: decimal normal usual plain
portrait: rotate orientation image person
landscape: rotate orientation nature
orientation: rotate turn direction
poster: picture size print
whiteboard: board photo writing
writing: text handwriting words script
type: write text enter
section: category part topic chapter
newspaper: news article press journal
architecture: structure modules design system
activity: activities task step job
algorithm: steps procedure flowchart method
pin: pins marker markers map point
office: offices company location workplace
attack: hack intrusion visitor threat
originate: origin come_from source
nation: country state people
tuesday: wednesday thursday friday monday saturday sunday day date appointment
dentist: doctor appointment visit
arrange: schedule plan appointment organise
configuration: settings setup records config
exchanger: mx mail
reproducible: container docker build
runtime: environment container execution
bump: upgrade update version newer
subscription: renew member newsletter
renew: extend again subscription churn
probably: likely risk estimate predict
fattening: calories fat nutrition diet
chocolate: cheese bread meat fish rice egg milk sugar food
cactus: orchid rose tulip fern plant flower tree
alive: living care survive
normal: usual ordinary healthy typical
afford: loan price budget pay
petrol: gas gasoline fuel station
closest: nearest nearby near
exam: test quiz deadline marks
marks: grades scores points exam
daily: every_day each_day day
visitors: users traffic guests people
dots: points scatter marks
pair: pairs two couple both
rules: strategy conditions policy
sell: sale trade trading buy
historical: past history backtest
details: data information facts
order: orders purchase sales shipment
figures: numbers values data
total: sum aggregate add
gross: net vat tax before_tax after_tax
net: gross tax pay
take_home: net salary pay
workers: replicas instances employees staff
additional: more extra further another
load: traffic capacity work users
push: deploy send publish
live: production deploy release
worked: working previous functioning
return: go_back revert rollback back
discrepancy: discrepancies difference mismatch error reconcile
bookkeeping: ledger accounts transactions books
automatic: automated automatically auto
filing: sort label classify archive
complaint: problem email customer issue
compose: write draft create
conference: meeting call video
composite_key: key id
globally: unique worldwide
keys: identifiers id secrets
quantity: quantities amount number ingredient
party: guests servings people
telescope: star sky astronomy
peptide: protein amino_acid
private: personal secret confidential
component: components package module part dependency
chore: chores task todo errand
retitle: rename title
sequential: number order series
tourist: tourists travel visitor visa
entry: entries enter row record visa
heap: memory ram allocate
board_game: dice game chess
outcome: result roll event
hub: broker home device
home_automation: smart_home mqtt lights iot
distant: remote far away
administer: manage control run
skip: skipping drop remove omit
tighten: shorten trim compress
dead_air: silence quiet pause
mood: sentiment feeling emotion
pupils: students class school
poll: survey vote questionnaire
response: responses answers reply
evaluate: assess score test measure summary
itinerary: route tour plan trip
efficient: optimal short fast best
courier: delivery parcel driver
network: graph neural web
sequence: series order list
natural: organic real
groupings: clusters groups segments
console: terminal game device product
offer: discount price deal sale
memo: note message recording
voice_memo: recording audio speech
bundle: package archive zip container
icon: icons thumbnail small picture
scans: pictures documents images
literature: references papers books citations
workday: workdays business_day working_day
obsolete: unused dead outdated old
dogecoin: bitcoin ethereum litecoin crypto coin
paperback: book isbn novel hardcover
blockbuster: movie film hit
plot: story chart movie
animals: objects dog cat bird
graphically: diagram visual draw picture
document: describe write documentation
budget_allocation: allocate optimise
daylight: sunrise sunset sun light
analyse: analyze examine study inspect evaluate
smell: smells warning lint bad problem
opponent: chess game rival
beat: win chess tempo
hide: blur conceal mask
opportunity: deal lead sales
negotiation: deal stage talks
japanese: chinese russian arabic korean spanish french german language translate
girl: boy name child daughter
irish: italian german french origin
roots: origin solution ancestry equation
debug: log logs error messages
speed: tempo fast performance
pieces: parts chunks fragments
visual: picture image graphic
web_path: slug url
clean: tidy slug neat
comment: docstring documentation annotate
api: function interface methods
alert: notify remind warn notification
morning: tomorrow day time
clock: time hour
nlp: text language embedding
semantic: meaning vector embedding
typed: schema graphql
retrieve: fetch get query
payment_request: invoice bill
buyer: customer client
audit: check report review
missing_page: broken link
polynomial: equation curve roots
second_drive: backup mirror target
incomplete: missing empty partial
repair: fix fill correct
shrink: compress reduce smaller zip resize
enlarge: resize scale bigger grow
flip: rotate turn mirror
scramble: encrypt shuffle
peek: look view show
contribute: author commits lines wrote developer share
contributor: author developer wrote git
feedback: review opinion sentiment survey comments answer
bad: negative worse broken poor error sentiment
good: positive best quality better sentiment
kilometre: distance length unit far miles
large: size count biggest lines
software: code program source project package
subject: topic title background person text
agree: decision meeting contract match
agreed: decisions minutes meeting contract
weekend: days holidays saturday sunday working_day
exclude: skip without remove filter
scannable: qr_code barcode scan
passphrase: password key secret encrypt
disk_space: size files disk biggest space usage
use_most: largest biggest most
highlight: show mark changed difference emphasise
spreadsheet: excel sheet csv rows xlsx
exam: test date quiz students
remaining: left until days between
tally: count total sum
swap: exchange replace convert
craft: create make write
erase: delete remove wipe
fuse: merge join combine
chart_of: graph plot draw
ditch: remove delete drop
pick: choose select sample
probe: test check scan port
forge: create fake sign
jot: note write todo
ping: notify reach latency
grab: fetch download get
dig: search find extract
crunch: compute calculate numbers
polish: improve edit format grammar
squash: compress merge
ship: deploy send deliver
spin_up: start create launch
tear_down: stop delete remove
wire: send connect transfer
tot_up: sum add total
ballpark: estimate guess
`;
